package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds"
	"github.com/muniment/muniment/services/feed-archiver/internal/rights"
	"github.com/muniment/muniment/services/feed-archiver/internal/store"
)

// Recorded bodies whose persons and reload times are known, through the writer
// into the rows: nothing of them is stored, and each row says what was removed.
func TestRecordedPersonsAreNotStored(t *testing.T) {
	t.Parallel()
	folder := sharedFeeds(t)
	b := setup(t)
	register, err := rights.CheckedIn()
	if err != nil {
		t.Fatal(err)
	}
	w := archive.New(store.New(b.feed), register, archive.NewMetrics(prometheus.NewRegistry()), zap.NewNop(), archive.InTests())
	for _, c := range []struct {
		source, file string
		rows         int
		// mark is what stands for a person, or for a time that moves by itself.
		mark, removed string
	}{
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-585-rows-PLACEHOLDERS.csv", 585, "Surveyor |Placeholder ", "flagMemberName"},
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-first-25-DERIVED.json", 25, "Surveyor |Placeholder ", "flagMemberName"},
		{"nws_dat_surveys", "damage-points-stlouis-962-PLACEHOLDER-USERS.geojson", 962, "survey.user", "properties.edit_user"},
		{"nws_dat_surveys", "damage-lines-2020-03-03-EXCERPT.geojson", 2, "DATians", "properties."},
		{"openfema_declarations", "reload-first-40-rows-a-DERIVED.json", 40, `"lastRefresh":`, "lastRefresh"},
	} {
		source, _ := feeds.Find(c.source)
		body, err := os.ReadFile(filepath.Join(folder, c.source, c.file))
		if err != nil {
			t.Fatal(err)
		}
		items, err := source.Replay(c.file, body, feeds.Params{})
		if err != nil {
			t.Fatal(err)
		}
		r := read(items...)
		r.Source, r.Request, r.RemovedFields = c.source, c.file, source.Removed
		if _, err := w.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		const of = "as_issued_products WHERE source = $1 AND request = $2"
		if n := b.count(t, of, r.Source, r.Request); n != c.rows {
			t.Errorf("%s: %d rows, want %d", c.file, n, c.rows)
		}
		if n := b.count(t, of+" AND content_text ~ $3", r.Source, r.Request, c.mark); n != 0 {
			t.Errorf("%s: %d rows hold %q", c.file, n, c.mark)
		}
		if n := b.count(t, of+" AND starts_with(content_text::jsonb ->> '_archive_removed_fields', '[\"') AND content_text::jsonb ->> '_archive_removed_fields' LIKE '%' || $3 || '%'", r.Source, r.Request, c.removed); n != c.rows {
			t.Errorf("%s: %d rows say that %s was removed, want %d", c.file, n, c.removed, c.rows)
		}
	}
}

// sharedFeeds finds the folder of recorded bodies beside the repository. They
// are other people's and are not part of it.
func sharedFeeds(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		folder := filepath.Join(dir, "shared", "feeds")
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
	}
	t.Skip("the recorded bodies (shared/feeds beside the repository) are not on this machine")
	return ""
}
