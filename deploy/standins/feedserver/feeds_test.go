package feedserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestEditionsHoldTheSameNumberAndDifferInThree(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler(time.Now))
	defer server.Close()

	for _, path := range []string{"/alerts/active", "/earthquakes/feed/v1.0/summary/all_day.geojson"} {
		before := read(t, server.URL+path)
		advance(t, server.URL)
		after := read(t, server.URL+path)
		if len(before) != items || len(after) != items {
			t.Fatalf("%s: %d and %d items, want %d each", path, len(before), len(after), items)
		}
		if n := missing(after, before); n != changes {
			t.Errorf("%s: %d bodies are new in the next edition, want %d", path, n, changes)
		}
	}
}

// TestEveryEditionChangesThree goes once around all items and beyond.
func TestEveryEditionChangesThree(t *testing.T) {
	t.Parallel()
	for edition := range 2*items/changes + 2 {
		changed := 0
		for i := range items {
			changed += revision(i, edition+1) - revision(i, edition)
		}
		if changed != changes {
			t.Fatalf("edition %d changes %d items, want %d", edition+1, changed, changes)
		}
	}
}

func TestAlertsRefuseWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler(time.Now))
	defer server.Close()

	for _, c := range []struct {
		name, path, agent string
		want              int
	}{
		{"no contact", "/alerts/active", "curl", http.StatusForbidden},
		{"unknown parameter", "/alerts/active?limit=500", "test (a@example.org)", http.StatusBadRequest},
		{"bad cursor", "/alerts/active?cursor=9", "test (a@example.org)", http.StatusBadRequest},
		{"known parameter", "/alerts/active?event=Flood%20Warning", "test (a@example.org)", http.StatusOK},
	} {
		request, err := http.NewRequest(http.MethodGet, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", c.agent)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, response.StatusCode, c.want)
		}
	}
}

// read collects the items of all pages, by body.
func read(t *testing.T, url string) map[string]bool {
	t.Helper()
	bodies := map[string]bool{}
	for url != "" {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", "test (a@example.org)")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Features   []json.RawMessage
			Pagination struct{ Next string }
		}
		err = json.NewDecoder(response.Body).Decode(&page)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Features {
			bodies[string(f)] = true
		}
		url = page.Pagination.Next
	}
	return bodies
}

func advance(t *testing.T, url string) {
	t.Helper()
	response, err := http.Post(url+"/advance", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func missing(from, in map[string]bool) int {
	n := 0
	for body := range from {
		if !in[body] {
			n++
		}
	}
	return n
}
