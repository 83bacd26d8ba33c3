package rights_test

import (
	"strings"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
)

// Every source has an entry, every entry has a source, and all that is polled
// may be stored.
func TestEverySourceHasItsEntry(t *testing.T) {
	t.Parallel()
	register, err := rights.CheckedIn()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range feeds.Sources {
		if source.Rights != source.Name {
			t.Errorf("%s names the entry %s: the writer looks a source up by its own name", source.Name, source.Rights)
		}
		if !register.MayStore(source.Name) {
			t.Errorf("%s is polled and may not be stored", source.Name)
		}
	}
	for _, name := range register.Sources() {
		if _, ok := feeds.Find(name); !ok {
			t.Errorf("%s stands in the register and is no source", name)
		}
	}
}

const entry = `
demo:
  authority: a
  policy: https://example.org/
  basis: b
  storage_permitted: no
  redistribution_permitted: yes
  reviewed_on: 2026-11-30
`

func TestOnlyYesIsYes(t *testing.T) {
	t.Parallel()
	register, err := rights.Parse([]byte(entry))
	if err != nil {
		t.Fatal(err)
	}
	if register.MayStore("demo") || !register.MayRedistribute("demo") || register.MayStore("unknown") || register.MayRedistribute("unknown") {
		t.Errorf("%+v", register)
	}
	for name, change := range map[string][2]string{
		"another word":     {"storage_permitted: no", "storage_permitted: maybe"},
		"a capital":        {"storage_permitted: no", "storage_permitted: Yes"},
		"an unknown field": {"basis: b", "basis: b\n  stored: yes"},
		"no authority":     {"authority: a", "authority:"},
		"no address":       {"https://example.org/", "ask them"},
		"no date":          {"2026-11-30", "soon"},
		"a bad date":       {"2026-11-30", "2026-02-30"},
	} {
		if _, err := rights.Parse([]byte(strings.Replace(entry, change[0], change[1], 1))); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	register, err = rights.Parse([]byte(strings.Replace(entry, "  storage_permitted: no\n", "", 1)))
	if err != nil || register.MayStore("demo") {
		t.Errorf("without storage_permitted: %v, %v", register, err)
	}
}
