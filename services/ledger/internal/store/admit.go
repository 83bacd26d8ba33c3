package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/muniment/muniment/pkg/fga"
	"github.com/muniment/muniment/pkg/rpcerr"
	"github.com/muniment/muniment/services/ledger/internal/store/db"
)

// Admission is an archive that may enter the ledger: its manifest was read, its
// object was seen.
type Admission struct {
	TaskID        uuid.UUID
	CorrelationID *string
	// OrgID and SubmittedBy are those of the stored submission.
	OrgID       string
	SubmittedBy *string

	Bucket, Key string
	SourceURL   string
	Labels      []string
	Complete    *bool
	Signed      *bool
	CapturedAt  time.Time

	ETag      string
	Size      int64
	VersionID *string
}

// Admitted is what became of one admission.
type Admitted struct {
	TaskID    uuid.UUID
	ArchiveID uuid.UUID
	// New says that this call wrote the archive and queued its tuples.
	New bool
	// Err is set where this admission could not be written; then nothing of it
	// was.
	Err error
}

// admitBatch is how many archives share a transaction.
const admitBatch = 100

// admit writes archives and, only for those that it inserted, their outbox rows,
// in one statement. Two callers with overlapping batches cannot wait for each
// other: both insert archives by (bucket, key), all of them (ORDER BY below
// reads the CTE to its end) before the first outbox row, and queue outbox rows
// by task, whose lock the outbox's trigger takes.
const admit = `
WITH offered AS (
    SELECT a.id, a.task_id, a.correlation_id, a.bucket, a.object_key, a.source_url, a.labels, a.wacz_complete, a.signed,
        a.captured_at, a.object_etag, a.object_size, a.object_version_id, a.payload
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[], $8::boolean[], $9::boolean[],
            $10::timestamptz[], $11::text[], $12::bigint[], $13::text[], $14::jsonb[])
        AS a (id, task_id, correlation_id, bucket, object_key, source_url, labels, wacz_complete, signed,
            captured_at, object_etag, object_size, object_version_id, payload)
), inserted AS (
    INSERT INTO archives (id, task_id, correlation_id, bucket, object_key, source_url, labels, wacz_complete, signed,
        captured_at, object_etag, object_size, object_version_id)
    SELECT id, task_id, correlation_id, bucket, object_key, source_url,
        ARRAY(SELECT jsonb_array_elements_text(labels)), wacz_complete, signed,
        captured_at, object_etag, object_size, object_version_id
    FROM offered
    ORDER BY bucket COLLATE "C", object_key COLLATE "C"
    ON CONFLICT (bucket, object_key) DO NOTHING
    RETURNING id
), queued AS (
    INSERT INTO outbox.fga_outbox (payload)
    SELECT o.payload
    FROM offered o JOIN inserted i ON i.id = o.id
    ORDER BY o.task_id
)
SELECT id FROM inserted`

// closeHoles forgets what no longer lacks an archive. A row that somebody else
// is removing at this moment is left to him; should he fail, the reconciler
// finds the archive there already and comes back to it.
const closeHoles = `
DELETE FROM capture_holes WHERE task_id IN (
    SELECT task_id FROM capture_holes WHERE task_id = ANY($1::uuid[]) ORDER BY task_id FOR UPDATE SKIP LOCKED
)`

// Admit admits archives, in batches that share a transaction. Each archive is
// its own all-or-nothing: it is there with its outbox row, or neither is, and
// one that cannot be written keeps nobody else out. The result is in the order
// given; the error is that of a database that does not answer.
func (s *Store) Admit(ctx context.Context, admissions []Admission) ([]Admitted, error) {
	results := make([]Admitted, 0, len(admissions))
	for batch := range slices.Chunk(admissions, admitBatch) {
		admitted, err := s.admit(ctx, batch)
		if err != nil && !errors.Is(err, rpcerr.ErrUnavailable) && ctx.Err() == nil && len(batch) > 1 {
			admitted, err = s.admitSingly(ctx, batch)
		}
		if err != nil {
			return results, err
		}
		results = append(results, admitted...)
	}
	return results, nil
}

// admitSingly finds the one of a batch that Postgres refuses.
func (s *Store) admitSingly(ctx context.Context, batch []Admission) ([]Admitted, error) {
	results := make([]Admitted, len(batch))
	for i, a := range batch {
		one, err := s.admit(ctx, batch[i:i+1])
		switch {
		case err == nil:
			results[i] = one[0]
		case errors.Is(err, rpcerr.ErrUnavailable) || ctx.Err() != nil:
			return nil, err
		default:
			results[i] = Admitted{TaskID: a.TaskID, Err: err}
		}
	}
	return results, nil
}

func (s *Store) admit(ctx context.Context, batch []Admission) ([]Admitted, error) {
	columns, ids, tasks, err := admitColumns(batch)
	if err != nil {
		return nil, err
	}
	var inserted []uuid.UUID
	err = s.bulk(ctx, func(ctx context.Context, tx pgx.Tx, _ *db.Queries) error {
		rows, err := tx.Query(ctx, admit, columns...)
		if err != nil {
			return fmt.Errorf("admitting archives: %w", err)
		}
		if inserted, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return fmt.Errorf("admitting archives: %w", err)
		}
		if _, err := tx.Exec(ctx, closeHoles, tasks); err != nil {
			return fmt.Errorf("closing holes: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	isNew := make(map[uuid.UUID]bool, len(inserted))
	for _, id := range inserted {
		isNew[id] = true
	}
	results := make([]Admitted, len(batch))
	for i, a := range batch {
		results[i] = Admitted{TaskID: a.TaskID, ArchiveID: ids[i], New: isNew[ids[i]]}
		if !results[i].New {
			if results[i].ArchiveID, err = s.archiveAt(ctx, a.Bucket, a.Key); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// admitColumns lays a batch out as one array per column.
func admitColumns(batch []Admission) (columns []any, ids, tasks []uuid.UUID, err error) {
	n := len(batch)
	ids, tasks = make([]uuid.UUID, n), make([]uuid.UUID, n)
	correlations, versions := make([]*string, n), make([]*string, n)
	buckets, keys, urls, etags := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	labels, payloads := make([]string, n), make([]string, n)
	complete, signed := make([]*bool, n), make([]*bool, n)
	times, sizes := make([]time.Time, n), make([]int64, n)
	for i, a := range batch {
		ids[i], tasks[i], correlations[i] = uuid.New(), a.TaskID, a.CorrelationID
		buckets[i], keys[i], urls[i], etags[i] = a.Bucket, a.Key, a.SourceURL, a.ETag
		complete[i], signed[i], times[i], sizes[i], versions[i] = a.Complete, a.Signed, a.CapturedAt, a.Size, a.VersionID
		list, err := json.Marshal(append([]string{}, a.Labels...))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("encoding labels: %w", err)
		}
		labels[i] = string(list)
		if payloads[i], err = payload(ids[i], a); err != nil {
			return nil, nil, nil, err
		}
	}
	return []any{ids, tasks, correlations, buckets, keys, urls, labels, complete, signed, times, etags, sizes, versions, payloads}, ids, tasks, nil
}

// payload is the outbox row of one archive.
func payload(archive uuid.UUID, a Admission) (string, error) {
	submitter := ""
	if a.SubmittedBy != nil {
		submitter = *a.SubmittedBy
	}
	body, err := json.Marshal(map[string][]fga.Tuple{
		"writes":  fga.CaptureTuples(archive.String(), a.TaskID.String(), a.OrgID, submitter),
		"deletes": {},
	})
	if err != nil {
		return "", fmt.Errorf("encoding the outbox row: %w", err)
	}
	return string(body), nil
}

// archiveAt returns the archive that stands under a key.
func (s *Store) archiveAt(ctx context.Context, bucket, key string) (uuid.UUID, error) {
	var row db.GetArchiveByObjectRow
	err := s.query(ctx, func(ctx context.Context, q *db.Queries) (err error) {
		row, err = q.GetArchiveByObject(ctx, db.GetArchiveByObjectParams{Bucket: bucket, ObjectKey: key})
		return err
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("reading the archive under a key: %w", orElse(err, ErrNoArchive))
	}
	return row.ID, nil
}
