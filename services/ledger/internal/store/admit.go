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
	// Deleted says that an archive of this task or under this key was deleted:
	// there is none, and there never will be.
	Deleted bool
	// Err is set where this admission could not be written; then nothing of it
	// was.
	Err error
}

// admitBatch is how many archives share a transaction.
const admitBatch = 100

// admit writes archives and, only for those that it inserted, their outbox rows,
// and forgets the holes of all of them: one statement, so all or nothing without
// a transaction around it, at one round trip. Two callers with overlapping
// batches cannot wait for each other: both insert archives by (bucket, key), all
// of them (ORDER BY below reads the CTE to its end) before the first outbox row,
// and queue outbox rows by task, whose lock the outbox's trigger takes. A hole
// that somebody else is removing at this moment is left to him; should he fail,
// the reconciler finds the archive there already and comes back to it.
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
), closed AS (
    DELETE FROM capture_holes WHERE task_id IN (
        SELECT task_id FROM capture_holes WHERE task_id = ANY($2::uuid[]) ORDER BY task_id FOR UPDATE SKIP LOCKED
    )
)
SELECT id FROM inserted`

// planOnce, sent along with a statement and as local as a transaction, keeps the
// statement's plan. Postgres would otherwise plan admit anew each time, because
// it takes an array that it has not seen for one of ten, and planning is what a
// single admission then costs beyond its rows.
const planOnce = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"

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
	columns, ids, err := admitColumns(batch)
	if err != nil {
		return nil, err
	}
	isNew := make(map[uuid.UUID]bool, len(batch))
	err = s.statement(ctx, func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(planOnce)
		batch.Queue(admit, columns...).Query(func(rows pgx.Rows) error {
			clear(isNew) // this may be another try
			var id uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				isNew[id] = true
				return nil
			})
			return err
		})
		return s.pool.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("admitting archives: %w", err)
	}
	results := make([]Admitted, len(batch))
	for i, a := range batch {
		results[i] = Admitted{TaskID: a.TaskID, ArchiveID: ids[i], New: isNew[ids[i]]}
	}
	if len(isNew) < len(batch) {
		if err := s.findAdmitted(ctx, batch, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// archivesAt returns which archives stand under some keys.
const archivesAt = `
SELECT o.position, a.id
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS o (bucket, object_key, position)
JOIN archives a ON a.bucket = o.bucket AND a.object_key = o.object_key`

// findAdmitted fills in the ids of the archives that were there already. It is a
// statement of its own: what another caller committed while ours ran is not to be
// seen by ours. What was neither written nor is there has a tombstone, without
// which no archive goes.
func (s *Store) findAdmitted(ctx context.Context, batch []Admission, results []Admitted) error {
	buckets, keys := make([]string, len(batch)), make([]string, len(batch))
	for i, a := range batch {
		buckets[i], keys[i] = a.Bucket, a.Key
	}
	err := s.statement(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, archivesAt, buckets, keys)
		if err != nil {
			return err
		}
		var position int
		var id uuid.UUID
		for i, r := range results {
			results[i].Deleted = !r.New
		}
		_, err = pgx.ForEachRow(rows, []any{&position, &id}, func() error {
			results[position-1].ArchiveID, results[position-1].Deleted = id, false
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the archives under known keys: %w", err)
	}
	for i, r := range results {
		if r.Deleted {
			results[i].ArchiveID = uuid.Nil
		}
	}
	return nil
}

// admitColumns lays a batch out as one array per column.
func admitColumns(batch []Admission) (columns []any, ids []uuid.UUID, err error) {
	n := len(batch)
	ids = make([]uuid.UUID, n)
	tasks := make([]uuid.UUID, n)
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
			return nil, nil, fmt.Errorf("encoding labels: %w", err)
		}
		labels[i] = string(list)
		if payloads[i], err = payload(ids[i], a); err != nil {
			return nil, nil, err
		}
	}
	return []any{ids, tasks, correlations, buckets, keys, urls, labels, complete, signed, times, etags, sizes, versions, payloads}, ids, nil
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
