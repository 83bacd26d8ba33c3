package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/muniment/muniment/services/ledger/internal/store"
)

func TestTargetsAreKnownByOrganizationAndURL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := "http://a/" + strings.Repeat("é", 4000)
	targets := []store.NewTarget{
		{URL: "http://a/dev", Labels: []string{"x", `a "b", c`}}, {URL: `http://a/\x`}, {URL: long}, {URL: long + "x"}, {URL: "http://a/dev"},
	}
	for _, step := range []struct {
		org  string
		want int64
	}{{"acme", 4}, {"acme", 0}, {"beta", 4}} {
		if added, err := b.AddTargets(t.Context(), step.org, targets, start); err != nil || added != step.want {
			t.Errorf("%s: added %d, %v, want %d", step.org, added, err, step.want)
		}
	}
	got, err := b.Targets(t.Context(), "acme", 0, 2)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	rest, err := b.Targets(t.Context(), "acme", got[1].ID, 10)
	if err != nil || len(rest) != 2 {
		t.Fatalf("%+v, %v", rest, err)
	}
	for _, target := range append(got, rest...) {
		if target.OrgID != "acme" || !target.Enabled || !target.CreatedAt.Equal(start) {
			t.Errorf("%+v", target)
		}
		if target.Url == "http://a/dev" && fmt.Sprint(target.Labels) != `[x a "b", c]` {
			t.Errorf("labels %q", target.Labels)
		}
	}
}

// Many callers with the same targets in different orders wait for nobody twice.
func TestRacingTargetsAreAddedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 500
	var wg sync.WaitGroup
	var mu sync.Mutex
	var added int64
	for caller := range 6 {
		wg.Go(func() {
			var targets []store.NewTarget
			for i := range n {
				targets = append(targets, store.NewTarget{URL: fmt.Sprintf("http://a/%d", (i+caller*83)%n)})
			}
			fresh, err := b.AddTargets(t.Context(), "acme", targets, start)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			added += fresh
		})
	}
	wg.Wait()
	if added != n {
		t.Errorf("%d targets were new, want %d", added, n)
	}
}

// What the schema refuses, whoever asks.
func TestTargetsAreTrimmedPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, url := range []string{" http://a/", "http://a/ ", "http://a/\t", "http://a/\v", "ftp://a/", "", "a"} {
		_, err := b.AddTargets(t.Context(), "acme", []store.NewTarget{{URL: url}}, start)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := b.AddTargets(t.Context(), "acme", []store.NewTarget{{URL: "HTTPS://a.gov/v"}}, start); err != nil {
		t.Error(err)
	}
}
