package relay

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/muniment/muniment/services/outbox-relay/internal/store"
)

func mustParse(t *testing.T, payload string, done int) *delivery {
	t.Helper()
	d, err := parse(store.Row{Payload: []byte(payload), TuplesDone: done})
	if err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	return d
}

func spell(ops []op) (text string) {
	for _, o := range ops {
		sign := "+"
		if o.delete {
			sign = "-"
		}
		text += sign + o.tuple.Object + " "
	}
	return text
}

func tupleJSON(object string) string {
	return fmt.Sprintf(`{"user":"user:a","relation":"owner","object":%q}`, object)
}

func TestParseOrder(t *testing.T) {
	t.Parallel()
	payload := `{"writes":[` + tupleJSON("x:1") + `,` + tupleJSON("x:2") + `,` + tupleJSON("x:1") + `],"deletes":[` + tupleJSON("x:1") + `,` + tupleJSON("x:3") + `,` + tupleJSON("x:3") + `]}`
	for done, want := range []string{"-x:1 -x:3 +x:1 +x:2 ", "-x:3 +x:1 +x:2 ", "+x:1 +x:2 ", "+x:2 ", "", ""} {
		if got := spell(mustParse(t, payload, done).ops); got != want {
			t.Errorf("with %d done: %q, want %q", done, got, want)
		}
	}
}

// T52: a number that no float holds, in a condition's context, reaches the engine
// with every digit.
func TestT52NumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	d := mustParse(t, `{"writes":[{"user":"user:a","relation":"viewer","object":"archive:1","condition":{"name":"c","context":{"limit":9007199254740993}}}]}`, 0)
	sent, err := json.Marshal(d.ops[0].tuple.Condition)
	if err != nil || string(sent) != `{"name":"c","context":{"limit":9007199254740993}}` {
		t.Errorf("the condition becomes %s, %v", sent, err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{}`, `{"writes":[]}`, `nonsense`, `{"writes":[1]}`, `{"writes":[],"more":1}`,
		`{"writes":[{"user":"u:1","relation":"r","object":"x:1","condition":{"name":"c","contxt":{}}}]}`,
		`{"deletes":[{"user":"u:1","relation":"r","object":"x:1","condition":{"name":"c"}}]}`,
	} {
		if _, err := parse(store.Row{Payload: []byte(payload)}); err == nil {
			t.Errorf("%s was read", payload)
		}
	}
}

func TestPrefixAndPack(t *testing.T) {
	t.Parallel()
	l := limits{tuples: 3, bytes: 1000}
	renewal := mustParse(t, `{"writes":[`+tupleJSON("x:1")+`],"deletes":[`+tupleJSON("x:1")+`]}`, 0)
	if n := l.prefix(renewal.ops); n != 1 {
		t.Errorf("a delete and a write of one tuple go together: %d", n)
	}
	long := mustParse(t, `{"writes":[`+tupleJSON("x:1")+`,`+tupleJSON("x:2")+`,`+tupleJSON("x:3")+`,`+tupleJSON("x:4")+`]}`, 0)
	if n := l.prefix(long.ops); n != 3 {
		t.Errorf("the first request holds %d tuples", n)
	}
	if n := (limits{tuples: 3, bytes: 1}).prefix(long.ops); n != 1 {
		t.Errorf("under a tiny message size the first request holds %d tuples", n)
	}
	rows := []*delivery{
		mustParse(t, `{"writes":[`+tupleJSON("a:1")+`,`+tupleJSON("a:2")+`]}`, 0),
		long,
		mustParse(t, `{"writes":[`+tupleJSON("b:1")+`]}`, 0),
		renewal,
		mustParse(t, `{"writes":[`+tupleJSON("c:1")+`]}`, 0),
	}
	var got []int
	for _, pack := range l.pack(rows) {
		got = append(got, len(pack))
	}
	if fmt.Sprint(got) != "[1 1 2 1]" {
		t.Errorf("packs of %v rows", got)
	}
	small := []*delivery{rows[2], rows[4], rows[2], rows[4], rows[2]}
	two := 2*rows[2].ops[0].bytes + 1
	if packs := (limits{tuples: 100, bytes: two}).pack(small); len(packs) != 3 || len(packs[0]) != 2 || len(packs[2]) != 1 {
		t.Errorf("with room for two rows' bytes there are %d packs", len(packs))
	}
}
