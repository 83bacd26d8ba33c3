package fga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
)

func client(t *testing.T, s config.OpenFGA) *fga.Client {
	t.Helper()
	c, err := fga.New(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func settings(e testkit.FGA) config.OpenFGA {
	return config.OpenFGA{APIURL: e.APIURL, StoreID: e.StoreID, ModelID: e.ModelID}
}

func write(t *testing.T, c *fga.Client, tuples ...fga.Tuple) {
	t.Helper()
	if err := c.Write(t.Context(), tuples, nil); err != nil {
		t.Fatal(err)
	}
}

func mayView(t *testing.T, c *fga.Client, subject, archive string, organizations ...string) bool {
	t.Helper()
	allowed, err := c.Check(t.Context(), fga.Query{
		Subject: subject, Organizations: organizations, Relation: "can_view", Object: fga.Archive(archive), At: time.Now(), HighConsistency: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return allowed
}

func TestCaptureTuples(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	owned, ownerless := uuid.NewString(), uuid.NewString()
	write(t, c, fga.CaptureTuples(owned, uuid.NewString(), "acme", "alice")...)
	write(t, c, fga.CaptureTuples(ownerless, uuid.NewString(), "acme", "")...)
	write(t, c, fga.Tuple{User: fga.User("root"), Relation: "admin", Object: fga.Organization("acme")})
	for _, want := range []struct {
		subject, relation, archive string
		allowed                    bool
	}{
		{"alice", "can_view", owned, true},
		{"alice", "can_delete", owned, true},
		{"root", "can_delete", owned, false},
		{"root", "can_share", owned, true},
		{"root", "can_delete", ownerless, true},
		{"alice", "can_delete", ownerless, false},
	} {
		got, err := c.Check(t.Context(), fga.Query{Subject: want.subject, Relation: want.relation, Object: fga.Archive(want.archive), At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if got != want.allowed {
			t.Errorf("%+v: got %v", want, got)
		}
	}
}

func TestMoreOrganizationsThanOneCheckMayCarry(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	archive := uuid.NewString()
	write(t, c, fga.CaptureTuples(archive, uuid.NewString(), "zzz", "alice")...)
	// Names as long as they may be, each of them twice.
	var organizations []string
	for i := range 300 {
		name := fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 230))
		organizations = append(organizations, name, name)
	}
	if mayView(t, c, "bob", archive, organizations...) {
		t.Error("membership elsewhere opens the archive")
	}
	with := append(slices.Clone(organizations), "zzz")
	if !mayView(t, c, "bob", archive, with...) {
		t.Error("the 301st organization does not count")
	}

	var queries []fga.Query
	for range 60 {
		queries = append(queries,
			fga.Query{Subject: "bob", Organizations: with, Relation: "can_view", Object: fga.Archive(archive), At: time.Now()},
			fga.Query{Subject: "bob", Organizations: organizations[:4], Relation: "can_view", Object: fga.Archive(archive), At: time.Now()})
	}
	queries[7].HighConsistency = true
	allowed, err := c.BatchCheck(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range allowed {
		if want := i%2 == 0; got != want {
			t.Fatalf("query %d: got %v", i, got)
		}
	}
	objects, complete, err := c.ListObjects(t.Context(), fga.Query{Subject: "bob", Organizations: with, Relation: "can_view", At: time.Now()}, "archive")
	if err != nil {
		t.Fatal(err)
	}
	if !complete || !slices.Equal(objects, []string{fga.Archive(archive)}) {
		t.Errorf("listed %v, complete %v", objects, complete)
	}
}

func TestT10AListingThatMayHaveBeenCutSaysSo(t *testing.T) {
	t.Parallel()
	s := settings(testkit.OpenFGA(t))
	c := client(t, s)
	for range 3 {
		write(t, c, fga.CaptureTuples(uuid.NewString(), uuid.NewString(), "acme", "alice")...)
	}
	q := fga.Query{Subject: "alice", Relation: "can_view", At: time.Now()}
	for limit, want := range map[int]bool{4: true, 3: false, 2: false} {
		s.ListLimit = limit
		if _, complete, err := client(t, s).ListObjects(t.Context(), q, "archive"); err != nil || complete != want {
			t.Errorf("3 objects with the limit at %d: complete %v, %v", limit, complete, err)
		}
	}
	s.ListLimit = 0
	clock := time.Now()
	slow, err := fga.New(s, func() time.Time { clock = clock.Add(3 * time.Second); return clock })
	if err != nil {
		t.Fatal(err)
	}
	if _, complete, err := slow.ListObjects(t.Context(), q, "archive"); err != nil || complete {
		t.Errorf("a listing that took 3 s: complete %v, %v", complete, err)
	}
}

func TestSubmitting(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	write(t, c,
		fga.Tuple{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("acme")},
		fga.Tuple{User: fga.User("alice"), Relation: "admin", Object: fga.Organization("beta")},
		fga.Tuple{User: fga.User("alice"), Relation: "submitter", Object: fga.Organization("left")})
	got, err := c.SubmitTo(t.Context(), "alice", []string{"gamma", "beta", "acme"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"beta", "acme"}; !slices.Equal(got, want) {
		t.Errorf("alice may submit to %v, want %v", got, want)
	}
	for _, ask := range []struct {
		subject, organization string
		claims                []string
		want                  bool
	}{
		{"alice", "acme", []string{"acme"}, true},
		{"alice", "left", []string{"acme"}, false},
		{"bob", "acme", []string{"acme"}, false},
	} {
		got, err := c.MaySubmit(t.Context(), ask.subject, ask.claims, ask.organization, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got != ask.want {
			t.Errorf("%+v: got %v", ask, got)
		}
	}
}

func TestT20ANewerModelChangesNothing(t *testing.T) {
	t.Parallel()
	e := testkit.OpenFGA(t)
	c := client(t, settings(e))
	before := uuid.NewString()
	write(t, c, fga.CaptureTuples(before, uuid.NewString(), "acme", "alice")...)
	e.WriteModel(t, []byte(`{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`))
	after := uuid.NewString()
	write(t, c, fga.CaptureTuples(after, uuid.NewString(), "acme", "alice")...)
	if !mayView(t, c, "alice", before) || !mayView(t, c, "alice", after) {
		t.Error("a model that nobody pinned decides")
	}
}

func TestT20AWrongPinIsLoud(t *testing.T) {
	t.Parallel()
	e := testkit.OpenFGA(t)
	if err := client(t, settings(e)).Ready(t.Context()); err != nil {
		t.Errorf("the right pin: %v", err)
	}
	const unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	wrongStore, wrongModel := settings(e), settings(e)
	wrongStore.StoreID, wrongModel.ModelID = unknown, unknown
	for name, s := range map[string]config.OpenFGA{"OPENFGA_STORE_ID": wrongStore, "OPENFGA_MODEL_ID": wrongModel} {
		c := client(t, s)
		if err := c.Ready(t.Context()); !errors.Is(err, fga.ErrWrongStoreOrModel) || !strings.Contains(err.Error(), name+" "+unknown) {
			t.Errorf("%s: %v", name, err)
		}
		_, check := c.Check(t.Context(), fga.Query{Subject: "alice", Relation: "can_view", Object: "archive:a", At: time.Now()})
		_, batch := c.BatchCheck(t.Context(), []fga.Query{{Subject: "alice", Relation: "can_view", Object: "archive:a", At: time.Now()}})
		written := c.Write(t.Context(), fga.CaptureTuples("a", "t", "acme", "alice"), nil)
		for call, err := range map[string]error{"check": check, "batch": batch, "write": written} {
			if !errors.Is(err, fga.ErrWrongStoreOrModel) {
				t.Errorf("%s with a wrong %s: %v", call, name, err)
			}
			if status.Code(rpcerr.From(err)) != codes.Unavailable {
				t.Errorf("%s with a wrong %s tells a caller %v", call, name, rpcerr.From(err))
			}
		}
	}
	for _, bad := range []config.OpenFGA{{APIURL: e.APIURL, StoreID: "x", ModelID: e.ModelID}, {APIURL: e.APIURL, StoreID: e.StoreID}} {
		if _, err := fga.New(bad, time.Now); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestT21WhatIsDoneAlreadyIsNoError(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	archive := uuid.NewString()
	tuples := fga.CaptureTuples(archive, uuid.NewString(), "acme", "alice")
	share := fga.ShareTuple(archive, "dave", time.Now(), time.Hour)
	write(t, c, append(tuples[:2:2], share)...)
	write(t, c, append(tuples, share)...)
	if !mayView(t, c, "alice", archive) || !mayView(t, c, "dave", archive) {
		t.Error("the new tuple beside duplicates did not land")
	}
	gone := []fga.Key{share.Key(), fga.ShareTuple(archive, "nobody", time.Now(), time.Hour).Key()}
	for range 2 {
		if err := c.Write(t.Context(), nil, gone); err != nil {
			t.Fatal(err)
		}
	}
	if mayView(t, c, "dave", archive) {
		t.Error("the delete beside a missing one did not land")
	}
}

func TestT22RenewingIsADeleteAndThenAWrite(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	archive, now := uuid.NewString(), time.Now()
	write(t, c, fga.ShareTuple(archive, "dave", now, time.Hour))
	renewed := fga.ShareTuple(archive, "dave", now.Add(time.Minute), time.Hour)
	if err := c.Write(t.Context(), []fga.Tuple{renewed}, nil); !errors.Is(err, fga.ErrConflict) {
		t.Errorf("another condition on the same tuple: %v, want ErrConflict", err)
	}
	if err := c.Write(t.Context(), []fga.Tuple{renewed}, []fga.Key{renewed.Key()}); !errors.Is(err, fga.ErrRefused) {
		t.Errorf("both in one request: %v, want ErrRefused", err)
	}
	if err := c.Write(t.Context(), nil, []fga.Key{renewed.Key()}); err != nil {
		t.Fatal(err)
	}
	write(t, c, renewed)
	berlin := time.FixedZone("CET", 3600)
	write(t, c, fga.ShareTuple(archive, "dave", now.Add(time.Minute).In(berlin), time.Hour))
}

func TestT49OneKeyTwiceIsRefused(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	tuple := fga.CaptureTuples(uuid.NewString(), uuid.NewString(), "acme", "alice")[0]
	if err := c.Write(t.Context(), []fga.Tuple{tuple, tuple}, nil); !errors.Is(err, fga.ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
}

func TestRefusedTuples(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	for name, tuple := range map[string]fga.Tuple{
		"unknown relation":        {User: "user:a", Relation: "nope", Object: "archive:x"},
		"unknown type":            {User: "user:a", Relation: "owner", Object: "thing:x"},
		"grant without an end":    {User: "user:a", Relation: "viewer", Object: "archive:x"},
		"a person as a caretaker": {User: "user:a", Relation: "caretaker", Object: "capture_job:x"},
		"malformed user":          {User: "user:a b", Relation: "owner", Object: "capture_job:x"},
		"over the message size": {
			User: "user:a", Relation: "viewer", Object: "archive:x",
			Condition: &fga.Condition{Name: "non_expired_grant", Context: map[string]any{"grant_duration": strings.Repeat("1", 700<<10)}},
		},
		"too long": {User: "user:a", Relation: "owner", Object: "capture_job:" + strings.Repeat("x", 300)},
	} {
		err := c.Write(t.Context(), []fga.Tuple{tuple}, nil)
		var known *fga.Error
		if !errors.As(err, &known) || !errors.Is(err, fga.ErrRefused) || known.Message == "" {
			t.Errorf("%s: %v, want ErrRefused with a reason", name, err)
		}
	}
}

func TestT48AnExpiredGrantIsANo(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	var queries []fga.Query
	for i := range 50 {
		archive := uuid.NewString()
		length := time.Hour
		if i%2 == 0 {
			length = time.Minute
		}
		write(t, c, fga.ShareTuple(archive, "dave", time.Now().Add(-30*time.Minute), length))
		queries = append(queries, fga.Query{Subject: "dave", Relation: "can_view", Object: fga.Archive(archive), At: time.Now()})
		if i < 2 && mayView(t, c, "dave", archive) != (i == 1) {
			t.Errorf("alone, archive %d is answered wrongly", i)
		}
	}
	allowed, err := c.BatchCheck(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range allowed {
		if want := i%2 == 1; got != want {
			t.Errorf("archive %d: got %v, want %v", i, got, want)
		}
	}
}

func TestT50AnErrorInsideABatchIsNotANo(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	archive := uuid.NewString()
	write(t, c, fga.CaptureTuples(archive, uuid.NewString(), "acme", "alice")...)
	q := fga.Query{Subject: "alice", Relation: "can_view", Object: fga.Archive(archive), At: time.Now()}
	for _, object := range []string{"archive:a b", "archive:", "nonsense", "thing:x"} {
		bad := q
		bad.Object = object
		if got, err := c.BatchCheck(t.Context(), []fga.Query{q, bad}); err == nil {
			t.Errorf("%q among good ones gives %v and no error", object, got)
		}
	}
}

// answers is an engine of which only the answers matter.
func answers(t *testing.T, status int, header http.Header, body string) *fga.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return client(t, config.OpenFGA{APIURL: srv.URL, StoreID: id, ModelID: id})
}

func TestWhatAnswersMean(t *testing.T) {
	t.Parallel()
	later := http.Header{"Retry-After": {"7"}}
	for name, test := range map[string]struct {
		status int
		header http.Header
		body   string
		want   error
		after  time.Duration
	}{
		"T23 a refusal":               {400, nil, `{"code":"validation_error","message":"no"}`, fga.ErrRefused, 0},
		"a 400 of something between":  {400, nil, `<html>`, fga.ErrUnavailable, 0},
		"the model is not there":      {400, nil, `{"code":"authorization_model_not_found","message":"no"}`, fga.ErrWrongStoreOrModel, 0},
		"the store is not there":      {404, nil, `{"code":"store_id_not_found","message":"no"}`, fga.ErrWrongStoreOrModel, 0},
		"our token is not taken":      {401, nil, `{"code":"bearer_token_missing","message":"no"}`, fga.ErrWrongStoreOrModel, 0},
		"two first writes":            {409, nil, `{"code":"Aborted","message":"again"}`, fga.ErrConflict, 0},
		"too many requests":           {429, later, `{"code":"rate_limit_exceeded","message":"no"}`, fga.ErrUnavailable, 7 * time.Second},
		"overloaded":                  {503, later, ``, fga.ErrUnavailable, 7 * time.Second},
		"throttled":                   {422, nil, `{"code":"throttled_timeout_error","message":"no"}`, fga.ErrUnavailable, 0},
		"out of time":                 {500, nil, `{"code":"deadline_exceeded","message":"no"}`, fga.ErrUnavailable, 0},
		"neither yes nor no":          {200, nil, `{}`, fga.ErrUnavailable, 0},
		"not even JSON":               {200, nil, `<html>`, fga.ErrUnavailable, 0},
		"an answer about other items": {200, nil, `{"result":{"9":{"allowed":true}}}`, fga.ErrUnavailable, 0},
	} {
		c := answers(t, test.status, test.header, test.body)
		q := fga.Query{Subject: "alice", Relation: "can_view", Object: "archive:a", At: time.Now()}
		_, check := c.Check(t.Context(), q)
		_, batch := c.BatchCheck(t.Context(), []fga.Query{q})
		calls := map[string]error{"check": check, "batch": batch}
		if test.status != http.StatusOK {
			calls["write"] = c.Write(t.Context(), fga.CaptureTuples("a", "t", "acme", "alice"), nil)
		}
		for call, err := range calls {
			if !errors.Is(err, test.want) || fga.RetryAfter(err) != test.after {
				t.Errorf("%s, %s: %v after %s, want %v after %s", name, call, err, fga.RetryAfter(err), test.want, test.after)
			}
		}
	}
}

func TestAnUnreachableEngine(t *testing.T) {
	t.Parallel()
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	c := client(t, config.OpenFGA{APIURL: "http://127.0.0.1:1", StoreID: id, ModelID: id})
	_, err := c.Check(t.Context(), fga.Query{Subject: "alice", Relation: "can_view", Object: "archive:a", At: time.Now()})
	if !errors.Is(err, fga.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	told := status.Convert(rpcerr.From(err))
	if told.Code() != codes.Unavailable || told.Message() != "authorization engine is not available" {
		t.Errorf("a caller is told %v", told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Ready(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, fga.ErrUnavailable) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestT52APayloadReachesTheEngineAsItIs(t *testing.T) {
	t.Parallel()
	c := client(t, settings(testkit.OpenFGA(t)))
	payload := `{"user":"user:dave","relation":"viewer","object":"archive:a","condition":{"name":"non_expired_grant","context":{"grant_time":"2026-11-30T17:00:00Z","grant_duration":"168h0m0s"}}}`
	var queued fga.Tuple
	if err := json.Unmarshal([]byte(payload), &queued); err != nil {
		t.Fatal(err)
	}
	write(t, c, queued)
	var stored []fga.Tuple
	err := c.Read(t.Context(), fga.Key{Object: "archive:a"}, func(tuple fga.Tuple) error {
		stored = append(stored, tuple)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(stored, []fga.Tuple{queued}) {
		t.Errorf("the engine holds %+v", stored)
	}
	until, timed := stored[0].Until()
	if want := time.Date(2026, 12, 7, 17, 0, 0, 0, time.UTC); !timed || !until.Equal(want) {
		t.Errorf("the grant ends at %s, want %s", until, want)
	}
	granted := time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC)
	if made := fga.ShareTuple("a", "dave", granted, 168*time.Hour); !reflect.DeepEqual(made, queued) {
		t.Errorf("the same grant made here is %+v", made)
	}
}
