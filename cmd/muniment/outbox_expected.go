package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
)

const (
	// auditArchives are the archives with what their tuples are made of. Deleted
	// ones have moved to the tombstones.
	auditArchives = `
		SELECT a.id::text, a.task_id::text, s.org_id, coalesce(s.submitted_by, '')
		  FROM ledger.archives AS a
		  JOIN ledger.capture_submissions AS s USING (task_id)`
	// auditShares are the shares; the tuple of one that has ended stays, as its
	// row does.
	auditShares = "SELECT archive_id::text, subject, granted_at, until FROM ledger.shares"
)

// expectedTuples calls visit for each tuple that follows from the ledger at one
// moment, some more than once.
func expectedTuples(ctx context.Context, ledger *pgx.Conn, visit func(fga.Tuple) error) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, ledger, snapshot, func(tx pgx.Tx) error {
		var archive, task, organization, submitter string
		rows, _ := tx.Query(ctx, auditArchives) // ForEachRow reports its error
		_, err := pgx.ForEachRow(rows, []any{&archive, &task, &organization, &submitter}, func() error {
			for _, t := range fga.CaptureTuples(archive, task, organization, submitter) {
				if err := visit(t); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		var subject string
		var granted, until time.Time
		rows, _ = tx.Query(ctx, auditShares)
		_, err = pgx.ForEachRow(rows, []any{&archive, &subject, &granted, &until}, func() error {
			return visit(fga.ShareTuple(archive, subject, granted, until.Sub(granted)))
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	return nil
}
