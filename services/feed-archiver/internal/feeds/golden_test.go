package feeds

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
)

var update = flag.Bool("update", false, "write the golden files anew; read the difference before keeping it")

// TestGoldenProducts splits every fixture of every source and compares the
// products, one line each, with testdata/<source>/golden.txt. A fixture with
// "refused" in its name must be, and golden.txt holds the reason.
func TestGoldenProducts(t *testing.T) {
	t.Parallel()
	for _, source := range Sources {
		t.Run(source.Name, func(t *testing.T) {
			t.Parallel()
			got := products(t, source)
			golden := filepath.Join("testdata", source.Name, "golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("products differ from %s; got:\n%s", golden, got)
			}
		})
	}
}

func products(t *testing.T, source *Source) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", source.Name, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d fixtures of %s, error %v", len(files), source.Name, err)
	}
	var out strings.Builder
	for _, file := range files {
		name := filepath.Base(file)
		if name == "golden.txt" {
			continue
		}
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		items, err := source.Replay(name, body, Params{})
		if refused := strings.Contains(name, "refused"); refused != (err != nil) {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: the error is not ErrRefused: %v", name, err)
		}
		fmt.Fprintf(&out, "%s: ", name)
		if err != nil {
			fmt.Fprintf(&out, "refused: %v\n", err)
			continue
		}
		fmt.Fprintf(&out, "%d\n", len(items))
		for _, item := range items {
			fmt.Fprintln(&out, line(item))
		}
	}
	return out.String()
}

func line(item archive.Item) string {
	issued := "no issue time"
	if item.IssuedAt != nil {
		issued = item.IssuedAt.Format(time.RFC3339Nano)
	}
	kind := map[archive.Kind]string{archive.JSON: "json", archive.Text: "text", archive.Binary: "binary"}[item.Kind]
	return fmt.Sprintf("  %s | %s | %s | %s %d bytes %x", item.ProductID, item.ItemKey, issued, kind, len(item.Body),
		sha256.Sum256(item.Body))
}
