package feeds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/muniment/muniment/services/feed-archiver/internal/archive"
	"github.com/muniment/muniment/services/feed-archiver/internal/feeds/feedtest"
)

// TestRemovedFieldsLeaveNoPersons takes out what the sources say from recorded
// bodies whose persons are marked by placeholders, and looks for the marks.
func TestRemovedFieldsLeaveNoPersons(t *testing.T) {
	t.Parallel()
	folder := sharedFeeds(t)
	for _, c := range []struct{ source, file, mark string }{
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-585-rows-PLACEHOLDERS.csv", "Surveyor "},
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-585-rows-PLACEHOLDERS.csv", "Placeholder "},
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-first-25-DERIVED.json", "Surveyor "},
		{"usgs_stn_hwms", "FilteredHWMs-louisiana-2016-first-25-DERIVED.json", "Placeholder "},
		{"nws_dat_surveys", "damage-points-stlouis-962-PLACEHOLDER-USERS.geojson", "survey.user"},
		{"nws_dat_surveys", "damage-lines-2020-03-03-EXCERPT.geojson", "DATians"},
	} {
		source, _ := Find(c.source)
		body, err := os.ReadFile(filepath.Join(folder, c.source, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), c.mark) {
			t.Fatalf("%s has no %q to begin with", c.file, c.mark)
		}
		items, err := source.Replay(c.file, body, Params{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if left := without(t, source, item); strings.Contains(left, c.mark) {
				t.Fatalf("%s: %q is left in %s", c.file, c.mark, left)
			}
		}
	}
}

// TestRemovedFieldsOfOurFixtures also reaches members of nested objects.
func TestRemovedFieldsOfOurFixtures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, file, mark string }{
		{"usgs_stn_hwms", "two.json", "Person"},
		{"usgs_stn_hwms", "two.json", "member"},
		{"usgs_stn_hwms", "two.csv", "Person"},
		{"usgs_stn_hwms", "two.csv", "river"},
		{"nws_dat_surveys", "points.geojson", "user.one"},
		{"nws_dat_surveys", "lines.geojson", "user."},
		{"openfema_declarations", "two.json", "lastRefresh"},
	} {
		source, _ := Find(c.source)
		items, err := source.Replay(c.file, feedtest.Fixture(t, c.source+"/"+c.file), Params{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if left := without(t, source, item); strings.Contains(left, c.mark) {
				t.Errorf("%s: %q is left in %s", c.file, c.mark, left)
			}
		}
	}
}

// TestReloadedRowsAreTheSame compares two reads that differ only in the field
// that changes by itself.
func TestReloadedRowsAreTheSame(t *testing.T) {
	t.Parallel()
	source, _ := Find("openfema_declarations")
	var left [2][]string
	for i, file := range []string{"two.json", "two-refreshed.json"} {
		items, err := source.Replay(file, feedtest.Fixture(t, "openfema_declarations/"+file), Params{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			left[i] = append(left[i], without(t, source, item))
		}
	}
	if !reflect.DeepEqual(left[0], left[1]) {
		t.Errorf("%v\n%v", left[0], left[1])
	}
}

// without is the removal as Read.RemovedFields describes it, on decoded JSON;
// the writer's own works on the bytes and has its own tests.
func without(t *testing.T, source *Source, item archive.Item) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(item.Body, &value); err != nil {
		t.Fatal(err)
	}
	for _, path := range source.Removed {
		if name, deep := strings.CutPrefix(path, "**."); deep {
			removeDeep(value, name)
			continue
		}
		steps := strings.Split(path, ".")
		object, _ := value.(map[string]any)
		for _, step := range steps[:len(steps)-1] {
			object, _ = object[step].(map[string]any)
		}
		delete(object, steps[len(steps)-1])
	}
	left, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(left)
}

func removeDeep(value any, name string) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, name)
		for _, inner := range v {
			removeDeep(inner, name)
		}
	case []any:
		for _, inner := range v {
			removeDeep(inner, name)
		}
	}
}
