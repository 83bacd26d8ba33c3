package listing_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/config"
	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/identity"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/ledger/internal/listing"
	"github.com/muniment/muniment/services/ledger/internal/store"
)

// ledger is a database and a store of the engine, both real.
type ledger struct {
	store *store.Store
	// insert writes archives, and submissions of their tasks by requester, which is
	// an organization.
	insert    func(archives, submissions [][]any)
	requester string
	engine    testkit.FGA
	client    *fga.Client
}

func realLedger(t testing.TB) *ledger {
	t.Helper()
	db, engine := testkit.Postgres(t), testkit.OpenFGA(t)
	pool := db.Pool(t, "ledger")
	l := &ledger{store: store.New(pool), engine: engine, requester: "acme"}
	l.client = l.connect(t, config.OpenFGA{})
	l.insert = func(archives, submissions [][]any) {
		t.Helper()
		columns := []string{"id", "task_id", "bucket", "object_key", "source_url", "captured_at", "object_etag", "object_size"}
		_, err := pool.CopyFrom(context.Background(), pgx.Identifier{"archives"}, columns, pgx.CopyFromRows(archives))
		require.NoError(t, err)
		_, err = pool.CopyFrom(context.Background(), pgx.Identifier{"capture_submissions"}, []string{"task_id", "correlation_id", "org_id", "submitted_at"}, pgx.CopyFromRows(submissions))
		require.NoError(t, err)
	}
	return l
}

// connect returns a client of the engine with other limits.
func (l *ledger) connect(t testing.TB, s config.OpenFGA) *fga.Client {
	t.Helper()
	if s.APIURL == "" {
		s.APIURL = l.engine.APIURL
	}
	// A loaded test machine is not what these tests are about.
	s.Timeout = cmp.Or(s.Timeout, 30*time.Second)
	s.StoreID, s.ModelID = l.engine.StoreID, l.engine.ModelID
	client, err := fga.New(s, time.Now)
	require.NoError(t, err)
	return client
}

// add puts n archives into the ledger, one every step, the newest at the clock's
// time, and returns their ids, newest first.
func (l *ledger) add(n int, step time.Duration) []uuid.UUID {
	ids, archives, submissions := make([]uuid.UUID, n), make([][]any, n), make([][]any, n)
	for i := range n {
		task := uuid.New()
		ids[i] = uuid.New()
		archives[i] = []any{ids[i], task, "browserhive", "key/" + ids[i].String(), "http://a.example/", now.Add(-time.Duration(i) * step), "etag", int64(1)}
		submissions[i] = []any{task, "c", l.requester, now}
	}
	l.insert(archives, submissions)
	return ids
}

// show makes archives visible to the members of an organization.
func (l *ledger) show(t testing.TB, organization string, ids ...uuid.UUID) {
	t.Helper()
	job := fga.CaptureJob(uuid.NewString())
	tuples := []fga.Tuple{{User: fga.Organization(organization), Relation: "parent", Object: job}}
	for _, id := range ids {
		tuples = append(tuples, fga.Tuple{User: job, Relation: "parent", Object: fga.Archive(id.String())})
	}
	for len(tuples) > 0 {
		n := min(100, len(tuples))
		require.NoError(t, l.client.Write(context.Background(), tuples[:n], nil))
		tuples = tuples[n:]
	}
}

// all pages through everything that who may view.
func all(t testing.TB, lister *listing.Lister, who identity.Identity, size int) []uuid.UUID {
	t.Helper()
	var found []uuid.UUID
	request := listing.Request{Size: size}
	for {
		page, err := lister.List(context.Background(), who, request)
		require.NoError(t, err)
		for _, a := range page.Archives {
			found = append(found, a.ID)
		}
		if page.Next == nil {
			return found
		}
		require.Len(t, page.Archives, size, "a page with a successor is full")
		request.After = page.Next
	}
}

func eachNth(ids []uuid.UUID, n int) []uuid.UUID {
	var some []uuid.UUID
	for i := 0; i < len(ids); i += n {
		some = append(some, ids[i])
	}
	return some
}

// 1500 visible archives among 20 000 are more than a listing of the engine
// returns; in every run the same at a tenth, with the limit at a tenth.
func TestT10MoreThanAListingReturns(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	visible := testkit.Soak(150, 1500)
	ids := l.add(visible*40/3, time.Second)
	mine := eachNth(ids, 13)[:visible]
	l.show(t, "acme", mine...)
	for name, limit := range map[string]int{
		"cut short": testkit.Soak(100, 1000),
		// The trap's edge: as many as the limit may be all, or not.
		"exactly the limit": visible,
		"one below":         visible + 1,
	} {
		t.Run(name, func(t *testing.T) {
			if limit > 1000 {
				t.Skip("the engine itself stops at 1000, and our limit must be no higher")
			}
			lister := listing.New(l.store, l.connect(t, config.OpenFGA{ListLimit: limit}), clock)
			require.Equal(t, mine, all(t, lister, alice, 200))
		})
	}
}

// A ledger of 100,000 with one in a hundred visible: every page is full until the
// end, from the engine's listing, and from checks where that may be cut short.
func TestOneInAHundredVisible(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	l.requester = "others"
	ids := l.add(testkit.Soak(3000, 100_000), time.Second)
	mine := eachNth(ids, 100)
	l.show(t, "acme", mine...)
	for _, limit := range []int{len(mine), len(mine) + 1} {
		lister := listing.New(l.store, l.connect(t, config.OpenFGA{ListLimit: limit}), clock)
		require.Equal(t, mine, all(t, lister, alice, 50), "trusting less than %d", limit)
	}
}

func TestTiesLoseNothing(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	ids := l.add(130, 0)
	l.show(t, "acme", ids...)
	found := all(t, listing.New(l.store, l.client, clock), alice, 20)
	require.ElementsMatch(t, ids, found)
}

func TestT48AnExpiredGrantHidesNothingElse(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	ids := l.add(50, time.Second)
	l.show(t, "acme", ids[:25]...)
	grant := func(id uuid.UUID, at time.Time) {
		require.NoError(t, l.client.Write(t.Context(), []fga.Tuple{fga.ShareTuple(id.String(), "alice", at, time.Hour)}, nil))
	}
	grant(ids[3], now.Add(-2*time.Hour))                                          // expired, visible all the same
	grant(ids[30], now.Add(-2*time.Hour))                                         // expired and nothing else
	grant(ids[31], now.Add(-30*time.Minute))                                      // holds
	grant(ids[32], now.Truncate(time.Minute).Add(-59*time.Minute-55*time.Second)) // ends before the next whole minute
	found := all(t, listing.New(l.store, l.client, clock), alice, 50)
	require.Equal(t, append(ids[:25:25], ids[31]), found)
}

func TestT51TheGoodOrganizationsCount(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	ids := l.add(5, time.Second)
	l.show(t, "acme", ids...)
	many := identity.Identity{Subject: "alice"}
	for i := range 250 {
		many.Organizations = append(many.Organizations, fmt.Sprintf("org-%d", i))
	}
	lister := listing.New(l.store, l.client, clock)
	require.Empty(t, all(t, lister, many, 50))
	many.Organizations = append(many.Organizations, "acme")
	require.Equal(t, ids, all(t, lister, many, 50), "more organizations than one check may carry")
}

func TestManyOrganizationsAndAListing(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	l.requester = "others" // what alice sees was shared, and the ledger's guess says so
	ids := l.add(300, time.Second)
	l.show(t, "acme", ids[290], ids[299])
	many := identity.Identity{Subject: "alice"}
	for i := range 120 {
		many.Organizations = append(many.Organizations, fmt.Sprintf("org-%d", i))
	}
	many.Organizations = append(many.Organizations, "acme")
	require.Equal(t, []uuid.UUID{ids[290], ids[299]}, all(t, listing.New(l.store, l.client, clock), many, 50))
}

// An engine that is slower than our limit, or that cannot be reached, is an
// error for the page.
func TestT50ASlowEngineIsNoAbsence(t *testing.T) {
	t.Parallel()
	l := realLedger(t)
	ids := l.add(120, time.Second)
	l.show(t, "acme", ids[100])
	target, err := url.Parse(l.engine.APIURL)
	require.NoError(t, err)
	for name, slow := range map[string]string{"checks": "/batch-check", "listing": "/list-objects"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := httputil.NewSingleHostReverseProxy(target)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, slow) {
					// With its body read, the server notices that the caller has
					// given up.
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			defer server.Close()
			client := l.connect(t, config.OpenFGA{APIURL: server.URL, Timeout: 2 * time.Second, ListDeadline: 100 * time.Millisecond})
			page, err := listing.New(l.store, client, clock).List(t.Context(), alice, listing.Request{Size: 50})
			require.Equal(t, codes.Unavailable, status.Code(rpcerr.From(err)), "%v", err)
			require.Empty(t, page.Archives)
		})
	}
}
