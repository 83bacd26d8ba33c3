package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/muniment/muniment/pkg/testkit"
)

// table is a table of ours with its columns, in their order.
type table struct {
	name    string
	columns []string
}

func tables(t *testing.T, superuser *pgxpool.Pool) []table {
	t.Helper()
	rows, err := superuser.Query(t.Context(), `
		SELECT n.nspname || '.' || c.relname, array_agg(a.attname::text ORDER BY a.attnum)
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			AND a.attidentity <> 'a' AND a.attgenerated = '' -- nobody may name these, whatever his rights
		WHERE n.nspname IN ('ledger', 'outbox', 'signer', 'reconciler', 'feed') AND c.relkind IN ('r', 'p', 'v', 'm')
		GROUP BY 1 ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (table, error) {
		var one table
		return one, row.Scan(&one.name, &one.columns)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// tried says whether the role may run the statement. The statements touch no
// row; an error other than a refused privilege means that it was let through.
func tried(ctx context.Context, t *testing.T, pool *pgxpool.Pool, statement string) bool {
	t.Helper()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, statement)
	var refused *pgconn.PgError
	return !errors.As(err, &refused) || refused.Code != "42501"
}

// rights spells what a role may do with a table, found out by trying.
func rights(ctx context.Context, t *testing.T, pool *pgxpool.Pool, tab table) string {
	t.Helper()
	column := func(verb, statement string) string {
		var allowed []string
		for _, c := range tab.columns {
			if tried(ctx, t, pool, fmt.Sprintf(statement, tab.name, pgx.Identifier{c}.Sanitize())) {
				allowed = append(allowed, c)
			}
		}
		switch len(allowed) {
		case 0:
			return ""
		case len(tab.columns):
			return verb
		}
		return verb + "(" + strings.Join(allowed, ",") + ")"
	}
	verbs := []string{
		column("select", "SELECT %[2]s FROM %[1]s LIMIT 0"),
		column("insert", "INSERT INTO %[1]s (%[2]s) SELECT NULL WHERE false"),
		column("update", "UPDATE %[1]s SET %[2]s = DEFAULT WHERE false"),
	}
	for _, whole := range []string{"DELETE FROM %s WHERE false", "TRUNCATE %s", "ALTER TABLE %s ADD COLUMN x int", "DROP TABLE %s"} {
		if tried(ctx, t, pool, fmt.Sprintf(whole, tab.name)) {
			verbs = append(verbs, strings.ToLower(strings.Fields(whole)[0]))
		}
	}
	return strings.Join(slices.DeleteFunc(verbs, func(v string) bool { return v == "" }), " ")
}

// granted is all that each role may do. What does not stand here is refused.
var granted = map[string]map[string]string{
	"ledger": {
		"ledger.archives":            "select insert",
		"ledger.capture_holes":       "select insert update delete",
		"ledger.capture_submissions": "select insert",
		"ledger.capture_targets":     "select insert update(enabled,updated_at) delete",
		"ledger.crawl_levels":        "select insert update(state,deadline,replied_at,stop_reason)",
		"ledger.crawl_pages":         "select insert update(state,reason,task_id,final_url,submitted_at,finished_at,reported_at)",
		"ledger.crawls": "select insert update(scope_keys,state,stop_reason,limit_hit,error,pages_discovered,pages_captured," +
			"last_job_id,last_job_depth,finished_at)",
		"ledger.goose_db_version": "select",
		"ledger.shares":           "select insert update(granted_by,granted_at,until) delete",
		// An archive goes by its tombstone alone; what that says of the object is
		// the database's own word.
		"ledger.tombstones": "select insert(archive_id,deleted_by,deleted_at) update(object_removed_at,note,attempts,next_attempt_at)",
		// The one door between two schemas: tuples commit with their archive.
		"outbox.fga_outbox": "insert(payload)",
	},
	"relay": {
		"outbox.discards":         "insert(row_id,certificate,person,reason)",
		"outbox.fga_outbox":       "select update(processed_at,attempts,last_error,next_attempt_at,dead_at,claim,claimed_until,tuples_done)",
		"outbox.goose_db_version": "select",
	},
	"signer": {
		"signer.issued_urls":      "insert",
		"signer.goose_db_version": "select",
	},
	"reconciler": {
		"reconciler.attempts":         "select insert update",
		"reconciler.goose_db_version": "select",
	},
	"feed": {
		"feed.archiver_minutes":       "select insert",
		"feed.as_issued_failed_reads": "select insert(source,request,fetched_at,http_status,reason)",
		"feed.as_issued_polls": "select insert(source,request,fetched_at,http_status,items_seen,items_new," +
			"http_date,http_age,http_last_modified,base_id,held,appeared,disappeared,weight)",
		"feed.as_issued_products": "select insert(source,request,product_id,item_key,issued_at,content_hash,byte_length,encoding,content_text)",
		"feed.as_issued_settings": "select",
		"feed.request_validators": "select insert update delete",
		"feed.source_schedule":    "select insert update",
		"feed.goose_db_version":   "select",
	},
}

// Each role can touch its own schema and nothing else, with the one exception
// that is the point of the outbox.
func TestRolesMayDoWhatIsListedAndNothingElse(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	all := tables(t, db.Pool(t, "superuser"))
	for _, role := range []string{"ledger", "signer", "reconciler", "relay", "feed"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			pool := db.Pool(t, role)
			for _, tab := range all {
				if got, want := rights(t.Context(), t, pool, tab), granted[role][tab.name]; got != want {
					t.Errorf("%s: %q, want %q", tab.name, got, want)
				}
			}
			for _, schema := range []string{"public", "ledger", "outbox", "signer", "reconciler", "feed"} {
				if tried(t.Context(), t, pool, "CREATE TABLE "+schema+".mine (x int)") {
					t.Errorf("may create tables in schema %s", schema)
				}
			}
			for _, statement := range []string{
				"CREATE TEMP TABLE mine (x int)", "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
				"CREATE SCHEMA mine", "CREATE ROLE mine", "SET ROLE muniment_migrate",
			} {
				if tried(t.Context(), t, pool, statement) {
					t.Errorf("may %s", statement)
				}
			}
		})
	}
}
