package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/testkit"
)

func TestWhoListsEveryPath(t *testing.T) {
	t.Parallel()
	o := operator{testkit.OpenFGA(t)}
	engine, err := fga.New(config.OpenFGA{APIURL: o.engine.APIURL, StoreID: o.engine.StoreID, ModelID: o.engine.ModelID}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	archive, task := uuid.NewString(), uuid.NewString()
	tuples := append(fga.CaptureTuples(archive, task, "acme", "alice"),
		fga.ShareTuple(archive, "dave", time.Now(), time.Hour),
		fga.ShareTuple(archive, "late", time.Now().Add(-2*time.Hour), time.Hour))
	if err := engine.Write(t.Context(), tuples, nil); err != nil {
		t.Fatal(err)
	}
	out, err := o.run(t, "who", archive)
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]string{
		"user:alice":                        "yes owner of capture_job:" + task,
		"every member of organization:acme": "yes organization:acme owns capture_job:" + task,
		"user:dave":                         "yes shared until",
		"user:late":                         "no shared, lapsed at",
	} {
		found := false
		for line := range strings.Lines(out) {
			words := strings.Join(strings.Fields(line), " ")
			found = found || strings.HasPrefix(words, who+" "+want)
		}
		if !found {
			t.Errorf("nothing says %q %q in:\n%s", who, want, out)
		}
	}
	out, err = o.run(t, "who", uuid.NewString())
	if err != nil || !strings.HasPrefix(out, "nobody") {
		t.Errorf("an unknown archive: %q, %v", out, err)
	}
	if _, err := o.run(t, "who", "x"); err == nil {
		t.Error("a malformed id is taken")
	}
}
