package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/muniment/muniment/pkg/fga"
	signerpb "github.com/muniment/muniment/pkg/pb/muniment/signer/v1"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/pkg/telemetry"
	"github.com/muniment/muniment/pkg/testkit"
)

func TestSignArchive(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "org/acme/2026-11/a b+é.wacz", "the body", "acme", "alice")

	t.Run("the owner's URL gives the object byte for byte", func(t *testing.T) {
		client, ctx := s.as(t, "alice", "acme")
		reply, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
		if err != nil {
			t.Fatal(err)
		}
		if reply.GetExpiresIn() != 300 {
			t.Errorf("expiresIn is %d, want the default 300", reply.GetExpiresIn())
		}
		if got := fetch(t, reply.GetUrl()); got != "the body" {
			t.Errorf("the URL gives %q", got)
		}
	})
	t.Run("a member views", func(t *testing.T) {
		client, ctx := s.as(t, "bob", "other", "acme")
		if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); err != nil {
			t.Error(err)
		}
	})
	t.Run("refused, unknown and vanished are one answer", func(t *testing.T) {
		gone := s.archive(t, "gone.wacz", "x", "acme", "alice")
		s.ledger.remove(gone)
		var answers []string
		for _, ask := range []struct{ subject, id string }{{"mallory", id}, {"mallory", uuid.NewString()}, {"alice", gone}} {
			client, ctx := s.as(t, ask.subject, "beta")
			_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: ask.id})
			answers = append(answers, fmt.Sprint(status.Convert(err).Proto()))
		}
		want := fmt.Sprint(status.New(codes.NotFound, "not found").Proto())
		for i, got := range answers {
			if got != want {
				t.Errorf("answer %d is %s, want %s", i, got, want)
			}
		}
		page := s.page(t, "/metrics")
		for _, line := range []string{`refusals_total{reason="not_allowed"} 1`, `refusals_total{reason="unknown"} 2`} {
			if !strings.Contains(page, line) {
				t.Errorf("the metrics do not count %s", line)
			}
		}
	})
	t.Run("no token, no answer", func(t *testing.T) {
		for _, peer := range []string{"ledger", "reconciler", "stranger"} {
			client := signerpb.NewSignerServiceClient(s.dial(t, peer))
			_, err := client.SignArchive(t.Context(), &signerpb.SignArchiveRequest{ArchiveId: id})
			want := codes.PermissionDenied
			if peer == "ledger" {
				want = codes.Unauthenticated
			}
			if status.Code(err) != want {
				t.Errorf("as %s: %v, want %s", peer, err, want)
			}
		}
	})
	t.Run("development headers are nobody's word here", func(t *testing.T) {
		client := signerpb.NewSignerServiceClient(s.dial(t, "ledger"))
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-muniment-subject-bin", "alice", "x-muniment-organizations-bin", "acme")
		if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("got %v, want Unauthenticated", err)
		}
	})
	t.Run("a malformed id is a malformed id", func(t *testing.T) {
		client, ctx := s.as(t, "alice", "acme")
		if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: "x"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("got %v, want InvalidArgument", err)
		}
	})
}

func TestEveryURLIsOnRecordAndTheRoleCanOnlyAdd(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	client, ctx := s.as(t, "alice", "acme", "beta")
	ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(telemetry.RequestIDHeader), "request-1")
	reply, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
	if err != nil {
		t.Fatal(err)
	}

	var archive, subject, caller, version, request string
	var organizations []string
	var issued, expires time.Time
	err = s.db.Pool(t, "superuser").QueryRow(t.Context(), `
		SELECT archive_id, subject, organizations, caller, version_id, request_id, issued_at, expires_at
		FROM signer.issued_urls`).Scan(&archive, &subject, &organizations, &caller, &version, &request, &issued, &expires)
	if err != nil {
		t.Fatal(err)
	}
	if archive != id || subject != "alice" || caller != "ledger" || request != "request-1" || !slices.Equal(organizations, []string{"acme", "beta"}) {
		t.Errorf("the row says %s %s %s %s %v", archive, subject, caller, request, organizations)
	}
	if expires.Sub(issued) != 300*time.Second {
		t.Errorf("the row says %s to %s", issued, expires)
	}
	if !strings.Contains(reply.GetUrl(), "versionId="+version) {
		t.Errorf("the row pins version %q and the URL is %s", version, reply.GetUrl())
	}

	pool := s.db.Pool(t, "signer")
	for _, statement := range []string{
		"SELECT count(*) FROM issued_urls", "UPDATE issued_urls SET subject = 'x'", "DELETE FROM issued_urls", "TRUNCATE issued_urls",
		"INSERT INTO issued_urls SELECT * FROM issued_urls", "DROP TABLE issued_urls", "CREATE TABLE mine ()",
		"SELECT count(*) FROM ledger.archives", "INSERT INTO outbox.fga_outbox (payload) VALUES ('{}')",
	} {
		if _, err := pool.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("as the signer's role, %q: %v, want permission denied", statement, err)
		}
	}
}

func TestNoURLLeavesWithoutItsRow(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	if _, err := s.db.Pool(t, "superuser").Exec(t.Context(), "REVOKE INSERT ON signer.issued_urls FROM muniment_signer"); err != nil {
		t.Fatal(err)
	}
	client, ctx := s.as(t, "alice", "acme")
	reply, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
	if status.Code(err) != codes.Internal || reply.GetUrl() != "" {
		t.Errorf("got %v and %v, want an internal error and no URL", reply, err)
	}
}

func TestT51OneBadOrganizationAmongGoodOnes(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	client, ctx := s.as(t, "bob", "acme", "be ta", "*", "x#member")
	if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); err != nil {
		t.Error(err)
	}
}

func TestMoreThanAHundredOrganizations(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "zz-last", "alice")
	organizations := []string{"zz-last"}
	for i := range 250 {
		organizations = append(organizations, fmt.Sprintf("org-%03d", i))
	}
	client, ctx := s.as(t, "bob", organizations...)
	if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); err != nil {
		t.Error(err)
	}
	client, ctx = s.as(t, "bob", organizations[1:]...)
	if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("without the right one: %v, want NotFound", err)
	}
}

func TestT48AnExpiredGrantIsANoAndNotAnError(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	grants := []fga.Tuple{
		fga.ShareTuple(id, "late", time.Now().Add(-2*time.Hour), time.Hour),
		fga.ShareTuple(id, "dave", time.Now(), time.Hour),
	}
	if err := s.tuples.Write(t.Context(), grants, nil); err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]codes.Code{"late": codes.NotFound, "dave": codes.OK} {
		client, ctx := s.as(t, subject)
		if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != want {
			t.Errorf("%s gets %v, want %s", subject, err, want)
		}
	}
}

func TestSignArchives(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), nil).ready(t)
	ids := append(s.unfilled(t, 97, "acme", "alice"), s.archive(t, "97", "the last one", "acme", "alice"))
	foreign, unknown := s.archive(t, "foreign.wacz", "x", "beta", "mallory"), uuid.NewString()
	ids = append(ids, foreign, unknown)

	client, ctx := s.as(t, "bob", "acme")
	reply, err := client.SignArchives(ctx, &signerpb.SignArchivesRequest{ArchiveIds: ids})
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.GetArchives()) != len(ids) {
		t.Fatalf("%d answers for %d ids", len(reply.GetArchives()), len(ids))
	}
	for i, a := range reply.GetArchives() {
		if a.GetArchiveId() != ids[i] {
			t.Fatalf("answer %d is about another archive", i)
		}
		if refused := ids[i] == foreign || ids[i] == unknown; refused != (a.Url == nil) || refused != (a.ExpiresIn == nil) {
			t.Errorf("answer %d: url %q", i, a.GetUrl())
		}
		if i < 98 && !strings.Contains(a.GetUrl(), fmt.Sprintf("/%d?", i)) {
			t.Errorf("answer %d is a URL of another object: %s", i, a.GetUrl())
		}
	}
	if got := fetch(t, reply.GetArchives()[97].GetUrl()); got != "the last one" {
		t.Errorf("the 98th URL gives %q", got)
	}
	var rows int
	if err := s.db.Pool(t, "superuser").QueryRow(t.Context(), "SELECT count(*) FROM signer.issued_urls").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != 98 {
		t.Errorf("%d rows on record, want 98", rows)
	}
	if _, err := client.SignArchives(ctx, &signerpb.SignArchivesRequest{ArchiveIds: append(ids, uuid.NewString())}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("101 ids: %v, want InvalidArgument", err)
	}
}

func TestServiceIdentity(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), map[string]string{"SERVICE_IDENTITIES": "feed-archiver:svc-feed"}).ready(t)
	granted := s.archive(t, "a.wacz", "x", "acme", "alice")
	other := s.archive(t, "b.wacz", "x", "acme", "alice")
	if err := s.tuples.Write(t.Context(), []fga.Tuple{fga.ShareTuple(granted, "svc-feed", time.Now(), time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	client := signerpb.NewSignerServiceClient(s.dial(t, "feed-archiver"))
	badToken := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer nonsense")
	good := "Bearer " + s.issuer.Token("alice")
	twoTokens := metadata.AppendToOutgoingContext(t.Context(), "authorization", good, "authorization", good)
	emptyToken := metadata.AppendToOutgoingContext(t.Context(), "authorization", "")
	for name, ask := range map[string]struct {
		ctx  context.Context
		id   string
		want codes.Code
	}{
		"its own subject sees what it was granted":    {t.Context(), granted, codes.OK},
		"and nothing else":                            {t.Context(), other, codes.NotFound},
		"a bad token does not fall back to a service": {badToken, granted, codes.Unauthenticated},
		"nor do two tokens, be they good":             {twoTokens, granted, codes.Unauthenticated},
		"nor does an empty one":                       {emptyToken, granted, codes.Unauthenticated},
	} {
		if _, err := client.SignArchive(ask.ctx, &signerpb.SignArchiveRequest{ArchiveId: ask.id}); status.Code(err) != ask.want {
			t.Errorf("%s: %v, want %s", name, err, ask.want)
		}
	}
	gateway := signerpb.NewSignerServiceClient(s.dial(t, "ledger"))
	for name, ctx := range map[string]context.Context{"two tokens": twoTokens, "no token": t.Context()} {
		if _, err := gateway.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: granted}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s through the gateway: %v, want Unauthenticated", name, err)
		}
	}
}

// fetch gets a URL as a plain client does.
func fetch(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("the URL answers %s: %s", reply.Status, body)
	}
	return string(body)
}

func TestDevelopmentHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), map[string]string{"ISSUER_URL": "", "DEV_HEADERS": "true", "SERVICE_IDENTITIES": "feed-archiver:svc-feed"}).ready(t)
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	headers := metadata.AppendToOutgoingContext(t.Context(), "x-muniment-subject-bin", "bob", "x-muniment-organizations-bin", "be ta,acme")
	for peer, want := range map[string]codes.Code{"ledger": codes.OK, "feed-archiver": codes.NotFound} {
		client := signerpb.NewSignerServiceClient(s.dial(t, peer))
		if _, err := client.SignArchive(headers, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != want {
			t.Errorf("the headers through %s: %v, want %s", peer, err, want)
		}
	}
}

func TestWithoutALedgerNothingIsKnown(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), map[string]string{"LEDGER_ADDRESS": testkit.FreeAddress(t)}).ready(t)
	// Allowed or not, known or not: the answer must not depend on it.
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	for _, subject := range []string{"alice", "mallory"} {
		client, ctx := s.as(t, subject)
		if _, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id}); status.Code(err) != codes.Unavailable {
			t.Errorf("%s gets %v, want Unavailable", subject, err)
		}
	}
}

func TestCredentialsThatEndAreUnavailable(t *testing.T) {
	t.Parallel()
	s := start(t, testkit.OpenFGA(t), map[string]string{
		"S3_CREDENTIALS_EXPIRY_FILE": secretFile(t, time.Now().Add(20*time.Second).UTC().Format(time.RFC3339)),
	})
	id := s.archive(t, "a.wacz", "x", "acme", "alice")
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		page := s.readyPage(t)
		return strings.HasPrefix(page, "credentials: "), page
	})
	client, ctx := s.as(t, "alice")
	_, err := client.SignArchive(ctx, &signerpb.SignArchiveRequest{ArchiveId: id})
	if status.Code(err) != codes.Unavailable || rpcerr.RetryAfter(err) <= 0 {
		t.Errorf("got %v, want Unavailable with a delay", err)
	}
}
