package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// archiveBatch bounds one transaction of the archiving.
	archiveBatch = 1000
	archiveUsage = "archive needs --older-than (at least 24h) and --to, a file that does not exist yet"
)

// takeDelivered removes delivered rows and returns them whole, as JSON, oldest
// first. Only the schema's owner may.
const takeDelivered = `
	WITH old AS (
	    SELECT id FROM outbox.fga_outbox
	     WHERE processed_at < now() - $1::bigint * interval '1 second'
	     ORDER BY id LIMIT $2)
	DELETE FROM outbox.fga_outbox AS r USING old
	 WHERE r.id = old.id
	RETURNING row_to_json(r)::text`

// runOutboxArchive moves old delivered rows into a file of JSON lines. A row
// leaves the table only after the file has it for certain: each batch is synced
// before its transaction commits. A crash in between leaves rows in both, none
// in neither.
func runOutboxArchive(ctx context.Context, sh shell, args []string) (err error) {
	flags := flag.NewFlagSet("outbox archive", flag.ContinueOnError)
	flags.SetOutput(sh.out)
	olderThan := flags.Duration("older-than", 0, "how long ago the rows were delivered at least")
	to := flags.String("to", "", "the file to write, which must not exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *olderThan < 24*time.Hour || *to == "" || flags.NArg() > 0 {
		return errors.New(archiveUsage)
	}
	conn, err := sh.connect(ctx, "MUNIMENT_DATABASE_URL")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	file, err := os.OpenFile(*to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("creating the file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	moved := 0
	for {
		n, err := archiveSome(ctx, conn, file, *olderThan)
		if err != nil {
			return err
		}
		moved += n
		if n < archiveBatch {
			break
		}
	}
	_, err = fmt.Fprintf(sh.out, "archived: %d rows to %s\n", moved, *to)
	return err
}

func archiveSome(ctx context.Context, conn *pgx.Conn, file *os.File, olderThan time.Duration) (moved int, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeDelivered, int64(olderThan/time.Second), archiveBatch)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		out := bufio.NewWriter(file)
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				return errors.New("a row is not JSON")
			}
			_, _ = out.WriteString(line + "\n") // Flush reports it
		}
		if err := out.Flush(); err != nil {
			return err
		}
		moved = len(lines)
		return file.Sync()
	})
	if err != nil {
		return 0, fmt.Errorf("archiving delivered rows: %w", err)
	}
	return moved, nil
}

// connect opens one connection to the database that the setting names.
func (s shell) connect(ctx context.Context, name string) (*pgx.Conn, error) {
	url, err := s.required(name)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: the database does not answer or refuses the role", name)
	}
	return conn, nil
}
