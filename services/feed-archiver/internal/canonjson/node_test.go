package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/canonjson"
)

const documents = 10_000

// accumulated is the SHA-256 over the canonical forms of all documents, a line
// break after each: one constant that stands for ten thousand vectors.
const accumulated = "0dbc76adebdcc99dd2fb892d0cc02a63df0a1bc02f50ac9f5e98d086d99d3e33"

// TestRandomDocuments holds ten thousand documents against one digest, and
// against another language's idea of the canonical form where there is one.
func TestRandomDocuments(t *testing.T) {
	t.Parallel()
	var in, out bytes.Buffer
	g := generator{rand.New(rand.NewPCG(2026, 11))}
	for range documents {
		doc := g.value(4)
		canonical, err := canonjson.Canonical([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		in.WriteString(doc + "\n")
		out.Write(canonical)
		out.WriteByte('\n')
	}
	sum := sha256.Sum256(out.Bytes())
	if got := hex.EncodeToString(sum[:]); got != accumulated {
		t.Errorf("the digest over all documents is %s, want %s", got, accumulated)
	}

	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on this machine: the canonical forms are held against the fixed digest only")
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", canonicalInNode)
	cmd.Stdin = &in
	theirs, err := cmd.Output()
	if err != nil {
		t.Fatalf("running node: %v", err)
	}
	ours, others := strings.Split(out.String(), "\n"), strings.Split(string(theirs), "\n")
	if len(ours) != len(others) {
		t.Fatalf("node answered %d lines for %d", len(others), len(ours))
	}
	for i := range ours {
		if ours[i] != others[i] {
			t.Fatalf("document %d: ours %s, node's %s", i, ours[i], others[i])
		}
	}
}

// ECMAScript prints numbers and texts as RFC 8785 asks, and compares texts by
// UTF-16 code units.
const canonicalInNode = `
const canonical = v =>
  Array.isArray(v) ? '[' + v.map(canonical).join(',') + ']' :
  v !== null && typeof v === 'object' ? '{' + Object.keys(v).sort().map(k => JSON.stringify(k) + ':' + canonical(v[k])).join(',') + '}' :
  JSON.stringify(v);
const lines = require('fs').readFileSync(0, 'utf8').split('\n');
process.stdout.write(lines.map(l => l === '' ? '' : canonical(JSON.parse(l))).join('\n'));
`

// generator writes documents in odd but valid spellings.
type generator struct{ *rand.Rand }

func (g generator) value(depth int) string {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch g.IntN(kinds) {
	case 0:
		return []string{"null", "true", "false"}[g.IntN(3)]
	case 1, 2:
		return g.number()
	case 3, 4:
		return g.text()
	case 5:
		parts := make([]string, g.IntN(5))
		for i := range parts {
			parts[i] = g.space() + g.value(depth-1) + g.space()
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		// Names are made different by a number at the end.
		parts := make([]string, g.IntN(6))
		for i := range parts {
			name := g.text()
			parts[i] = name[:len(name)-1] + strconv.Itoa(i) + `"` + g.space() + ":" + g.value(depth-1)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

func (g generator) space() string { return []string{"", "", " ", "\t"}[g.IntN(4)] }

func (g generator) number() string {
	switch g.IntN(5) {
	case 0:
		return strconv.Itoa(g.IntN(2_000_000) - 1_000_000)
	case 1:
		return strconv.FormatInt(g.Int64N(1<<53), 10)
	case 2:
		return fmt.Sprintf("%d.%0*d", g.IntN(1000), 1+g.IntN(18), g.IntN(10))
	case 3:
		return fmt.Sprintf("-%d.%dE%+d", g.IntN(10), g.IntN(1_000_000), g.IntN(600)-300)
	default:
		for {
			f := math.Float64frombits(g.Uint64())
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				return strconv.FormatFloat(f, "eg"[g.IntN(2)], 16, 64)
			}
		}
	}
}

func (g generator) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range g.IntN(8) {
		switch g.IntN(7) {
		case 0:
			fmt.Fprintf(&b, `\u%04x`, g.IntN(0x80))
		case 1:
			fmt.Fprintf(&b, `\u%04X`, 0xe000+g.IntN(0x1000))
		case 2:
			fmt.Fprintf(&b, `\ud83d\ude%02x`, g.IntN(0x50))
		case 3:
			b.WriteString([]string{`\/`, `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`}[g.IntN(8)])
		case 4:
			b.WriteRune(rune(0xa0 + g.IntN(0x2000)))
		case 5:
			b.WriteRune(rune(0x10000 + g.IntN(0x10000)))
		default:
			b.WriteByte("<>&' aZ09/~\x7f"[g.IntN(12)])
		}
	}
	b.WriteByte('"')
	return b.String()
}
