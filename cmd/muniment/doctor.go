package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/daemon"
)

const doctorUsage = "doctor [--origin https://replay.example.org]            check an installation, and say what to do"

// remark is a check's finding: what is wrong and what to do about it.
type remark struct{ wrong, remedy string }

func (r remark) Error() string { return r.wrong + "; " + r.remedy }

// examination is one check. It returns what it saw, or an error.
type examination struct {
	name string
	// needs are the settings without which it is left out.
	needs []string
	run   func(ctx context.Context, sh shell) (string, error)
}

// examinations are all checks, in the order in which one thing needs another.
func examinations(origin string) []examination {
	store := []string{"S3_ENDPOINT", "S3_REGION", "S3_BUCKET", "S3_ACCESS_KEY", "S3_SECRET_KEY"}
	all := []examination{
		{"database roles", []string{"MUNIMENT_DATABASE_URL"}, examineRoles},
		{"model pin", []string{"OPENFGA_API_URL", "OPENFGA_STORE_ID", "OPENFGA_MODEL_ID"}, examineModel},
		{"issuer", []string{"MUNIMENT_ISSUER_URL"}, examineIssuer},
		{"bucket", store, examineBucket},
		{"clock", store[:1], examineClock},
		{"replay", store, func(ctx context.Context, sh shell) (string, error) { return examineReplay(ctx, sh, origin) }},
		{"webhook", []string{"MUNIMENT_LEDGER_WEBHOOK_URL"}, examineWebhook},
	}
	for _, s := range services {
		all = append(all, examination{
			"the " + s.name,
			[]string{s.setting(), "MUNIMENT_TLS_CERT_FILE", "MUNIMENT_TLS_KEY_FILE", "MUNIMENT_TLS_CA_FILE"},
			func(ctx context.Context, sh shell) (string, error) { return examineService(ctx, sh, s) },
		})
	}
	return all
}

// runDoctor runs every check, whatever the others found.
func runDoctor(ctx context.Context, sh shell, args []string) error {
	flags := flag.NewFlagSet("muniment doctor", flag.ContinueOnError)
	origin := flags.String("origin", "https://replay.example.org", "the origin of the page that replays archives")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	failed := 0
	for _, e := range examinations(*origin) {
		line := examine(ctx, sh, e)
		if strings.HasPrefix(line, "FAIL") {
			failed++
		}
		if _, err := fmt.Fprintln(sh.out, line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return nil
}

func examine(ctx context.Context, sh shell, e examination) string {
	for _, name := range e.needs {
		if sh.getenv(name) == "" {
			return fmt.Sprintf("skip  %s: %s is not set", e.name, name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	seen, err := e.run(ctx, sh)
	if err != nil {
		return fmt.Sprintf("FAIL  %s: %s", e.name, daemon.OneLine(err))
	}
	return fmt.Sprintf("ok    %s: %s", e.name, seen)
}

// examineRoles finds roles that can do what no service may.
func examineRoles(ctx context.Context, sh shell) (string, error) {
	conn, err := pgx.Connect(ctx, sh.getenv("MUNIMENT_DATABASE_URL"))
	if err != nil {
		return "", remark{"the database does not answer", "start it, or correct MUNIMENT_DATABASE_URL"}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const query = `
		SELECT count(*) FILTER (WHERE NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls)), count(*)
		FROM pg_catalog.pg_roles
		WHERE rolname IN ('muniment_migrate', 'muniment_ledger', 'muniment_signer', 'muniment_reconciler', 'muniment_relay', 'muniment_feed')`
	var plain, all int
	if err := conn.QueryRow(ctx, query).Scan(&plain, &all); err != nil {
		return "", remark{"the roles cannot be read", "use a role that may read pg_roles"}
	}
	switch {
	case all < 6:
		return "", remark{fmt.Sprintf("%d of 6 roles are there", all), "run 'muniment-migrate up'"}
	case plain < all:
		return "", remark{fmt.Sprintf("%d service roles hold more than a service may", all-plain), "run 'muniment-migrate up', which takes it back"}
	}
	return "6 roles, none of them above its schema", nil
}

func examineModel(ctx context.Context, sh shell) (string, error) {
	engine, err := sh.engine()
	if err != nil {
		return "", err
	}
	if err := engine.Ready(ctx); err != nil {
		return "", remark{err.Error(), "pin the ids that muniment-model prints"}
	}
	return sh.getenv("OPENFGA_MODEL_ID") + " is there", nil
}

func examineIssuer(ctx context.Context, sh shell) (string, error) {
	issuer := sh.getenv("MUNIMENT_ISSUER_URL")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", http.NoBody)
	if err != nil {
		return "", errors.New("MUNIMENT_ISSUER_URL is not a URL")
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", remark{"the issuer does not answer", "without its keys no token is verified; see whether MUNIMENT_ISSUER_URL is reachable from here"}
	}
	defer func() { _ = reply.Body.Close() }()
	var discovery struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&discovery); err != nil || reply.StatusCode != http.StatusOK {
		return "", remark{"the issuer has no discovery document (" + reply.Status + ")", "MUNIMENT_ISSUER_URL must be an OpenID Connect issuer"}
	}
	if discovery.Issuer != issuer {
		return "", remark{fmt.Sprintf("the issuer calls itself %q", discovery.Issuer), "spell MUNIMENT_ISSUER_URL exactly so: tokens are compared with it"}
	}
	return issuer, nil
}

// examineWebhook asks with GET, which starts no job: that something answers is
// all that can be known without one.
func examineWebhook(ctx context.Context, sh shell) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, sh.getenv("MUNIMENT_LEDGER_WEBHOOK_URL"), http.NoBody)
	if err != nil {
		return "", errors.New("MUNIMENT_LEDGER_WEBHOOK_URL is not a URL")
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", remark{"nothing answers", "start Windmill, or correct MUNIMENT_LEDGER_WEBHOOK_URL; until then every crawl closes as failed"}
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode >= http.StatusInternalServerError {
		return "", remark{"it answers " + reply.Status, "see Windmill's own log"}
	}
	return "something answers", nil
}
