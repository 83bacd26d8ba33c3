package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/fga"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
)

// TestT19RevokedIsRevokedThoughTheEngineCaches grants, signs, revokes and signs
// at once, by each path to an archive. The same question asked plainly must
// still be answered from the cache, or the test shows nothing.
func TestT19RevokedIsRevokedThoughTheEngineCaches(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.CachingOpenFGA(t), nil).ready(t)
	for name, test := range map[string]struct {
		subject       string
		organizations []string
		path          func(id, task string) []fga.Tuple
		revoke        func(id, task string) fga.Key
	}{
		"a share with an organization": {
			"gina",
			[]string{"gamma"},
			func(id, _ string) []fga.Tuple {
				grant := fga.ShareTuple(id, "gina", time.Now(), time.Hour)
				grant.User = "organization:gamma#member"
				return []fga.Tuple{grant}
			},
			func(id, _ string) fga.Key {
				return fga.Key{User: "organization:gamma#member", Relation: "viewer", Object: fga.Archive(id)}
			},
		},
		"the owner, by the archive's parent": {
			"alice", nil,
			func(id, task string) []fga.Tuple { return fga.CaptureTuples(id, task, "acme", "alice") },
			func(id, task string) fga.Key {
				return fga.Key{User: fga.CaptureJob(task), Relation: "parent", Object: fga.Archive(id)}
			},
		},
		"a member, by the job's organization": {
			"bob",
			[]string{"acme"},
			func(id, task string) []fga.Tuple { return fga.CaptureTuples(id, task, "acme", "alice") },
			func(_, task string) fga.Key {
				return fga.Key{User: fga.Organization("acme"), Relation: "parent", Object: fga.CaptureJob(task)}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, task := s.archive(t, uuid.NewString(), "x", "elsewhere", "nobody"), uuid.NewString()
			if err := s.tuples.Write(t.Context(), test.path(id, task), nil); err != nil {
				t.Fatal(err)
			}
			client, ctx := s.as(t, test.subject, test.organizations...)
			plain := func() bool {
				allowed, err := s.tuples.Check(t.Context(), fga.Query{
					Subject: test.subject, Organizations: test.organizations, Relation: "can_view", Object: fga.Archive(id), At: time.Now(),
				})
				if err != nil {
					t.Fatal(err)
				}
				return allowed
			}
			for range 3 { // the engine fills its cache beside the answer
				if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); err != nil || !plain() {
					t.Fatalf("while granted: %v", err)
				}
			}
			if err := s.tuples.Write(t.Context(), nil, []fga.Key{test.revoke(id, task)}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != codes.NotFound {
				t.Errorf("after the delete was acknowledged: %v, want NotFound", err)
			}
			batch, err := client.SignArchives(ctx, &signerpb.SignArchivesRequest{ArchiveIds: []string{id}})
			if err != nil || batch.GetArchives()[0].Url != nil {
				t.Errorf("in a batch: %v, %v, want no URL", batch, err)
			}
			if !plain() {
				t.Error("the plain check knows of the delete: the engine does not cache, so this shows nothing")
			}
		})
	}
}

func TestT20ANewerModelChangesNothing(t *testing.T) {
	t.Parallel()
	engine := testkit.OpenFGA(t)
	s := start(t, engine, nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	engine.WriteModel(t, []byte(`{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`))
	client, ctx := s.as(t, "alice")
	if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); err != nil {
		t.Error(err)
	}
}

func TestT20AModelThatIsNotThereIsNotReady(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), map[string]string{"OPENFGA_MODEL_ID": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		page := s.readyPage(t)
		return strings.Contains(page, "OPENFGA_MODEL_ID 01ARZ3NDEKTSV4RRFFQ69G5FAV") && strings.Contains(page, "does not know the pinned store or model"), page
	})
}

func TestT50ASlowEngineIsUnavailable(t *testing.T) {
	t.Parallel()
	engine := testkit.OpenFGA(t)
	proxy := testkit.NewProxy(t, engine.APIURL)
	engine.APIURL = proxy.URL
	s := start(t, engine, nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	client, ctx := s.as(t, "alice", "acme")

	proxy.Toxic("latency", "downstream", `{"latency":4000}`)
	began := time.Now()
	for _, archive := range []string{id, uuid.NewString()} {
		_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: archive})
		if status.Code(err) != codes.Unavailable || rpcerr.RetryAfter(err) <= 0 {
			t.Errorf("one archive: %v, want Unavailable with a delay", err)
		}
	}
	if _, err := client.SignArchives(ctx, &signerpb.SignArchivesRequest{ArchiveIds: []string{id, uuid.NewString()}}); status.Code(err) != codes.Unavailable {
		t.Errorf("a batch: %v, want Unavailable", err)
	}
	if took := time.Since(began); took > 11*time.Second {
		t.Errorf("three calls took %s: one call of the engine takes 3 s at most", took)
	}
	proxy.Heal("latency")
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
		return err == nil, "with the delay gone: " + status.Convert(err).String()
	})

	proxy.Stop()
	if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != codes.Unavailable {
		t.Errorf("without an engine: %v, want Unavailable", err)
	}
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		page := s.readyPage(t)
		return strings.HasPrefix(page, "authorization engine: "), page
	})
}
