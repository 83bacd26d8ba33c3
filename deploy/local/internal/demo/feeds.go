package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	feedv1 "github.com/muniment/muniment/pkg/pb/muniment/feedarchiver/v1"
)

const (
	itemsPerFeed = 480
	changedItems = 3
)

// feeds is step 6: two reads of two feeds, of which a few items change between.
func (w *walk) feeds(ctx context.Context) error {
	for _, source := range []string{"nws_alerts", "usgs_earthquakes"} {
		if err := w.readFeed(ctx, source, itemsPerFeed); err != nil {
			return err
		}
	}
	if err := w.advanceFeeds(ctx); err != nil {
		return err
	}
	for _, source := range []string{"nws_alerts", "usgs_earthquakes"} {
		if err := w.readFeed(ctx, source, changedItems); err != nil {
			return err
		}
	}
	if err := w.recompute(ctx); err != nil {
		return err
	}
	return w.unchangeable(ctx)
}

// readFeed has the archiver read a source now; wantNew items are to be new.
func (w *walk) readFeed(ctx context.Context, source string, wantNew int) error {
	conn, err := w.stack.Dial("feed-archiver")
	if err != nil {
		return err
	}
	defer conn.Close()
	polls, products, err := w.kept(ctx, source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	reply, err := feedv1.NewFeedServiceClient(conn).ReadFeed(ctx, &feedv1.ReadFeedRequest{Source: source})
	if err != nil {
		return fmt.Errorf("asking the feed archiver: %w", err)
	}
	if err := equal("requests of "+source, len(reply.GetReads()), 1); err != nil {
		return err
	}
	read := reply.GetReads()[0]
	if read.Failure != nil {
		return fmt.Errorf("reading %s failed: %s", source, read.GetFailure())
	}
	morePolls, moreProducts, err := w.kept(ctx, source)
	if err != nil {
		return err
	}
	w.sayf("ReadFeed %s (%s): %d items, %d new; %d product rows and %d poll row more",
		source, read.GetRequest(), read.GetItemsSeen(), read.GetItemsNew(), moreProducts-products, morePolls-polls)
	for _, err := range []error{
		equal("items of "+source, int(read.GetItemsSeen()), itemsPerFeed),
		equal("new items of "+source, int(read.GetItemsNew()), wantNew),
		equal("product rows of "+source, moreProducts-products, wantNew),
		equal("poll rows of "+source, morePolls-polls, 1),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) kept(ctx context.Context, source string) (polls, products int, err error) {
	if polls, err = w.number(ctx, "SELECT count(*) FROM feed.as_issued_polls WHERE source = $1", source); err != nil {
		return 0, 0, err
	}
	products, err = w.number(ctx, "SELECT count(*) FROM feed.as_issued_products WHERE source = $1", source)
	return polls, products, err
}

// advanceFeeds makes the feed server show its next edition.
func (w *walk) advanceFeeds(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.stack.Feeds()+"/advance", nil)
	if err != nil {
		return fmt.Errorf("advancing the feeds: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("advancing the feeds: %w", err)
	}
	_ = resp.Body.Close()
	if err := equal("status of the feeds' next edition", resp.StatusCode, http.StatusOK); err != nil {
		return err
	}
	w.sayf("the feeds change: %d items of each", changedItems)
	return nil
}

// recompute hashes a stored body from its row, as anybody who has the row can.
func (w *walk) recompute(ctx context.Context) error {
	var hash, text string
	err := w.db.QueryRow(ctx, "SELECT content_hash, content_text FROM feed.as_issued_products ORDER BY id DESC LIMIT 1").Scan(&hash, &text)
	if err != nil {
		return fmt.Errorf("reading a stored body: %w", err)
	}
	sum := sha256.Sum256([]byte(text))
	w.sayf("SHA-256 of the newest stored body (%d bytes), recomputed: %s", len(text), hex.EncodeToString(sum[:]))
	return equal("the recomputed hash", hex.EncodeToString(sum[:]), hash)
}

// unchangeable tries to change a stored row, as the superuser.
func (w *walk) unchangeable(ctx context.Context) error {
	_, err := w.db.Exec(ctx, "UPDATE feed.as_issued_products SET content_text = '{}' WHERE id = (SELECT max(id) FROM feed.as_issued_products)")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return fmt.Errorf("a superuser's UPDATE of a stored row was not refused: %w", err)
	}
	w.sayf("UPDATE of a stored row, as superuser: refused, %q", refused.Message)
	return nil
}
