-- Room for a row's two updates beside it.
--
-- Each row is written three times: queued, claimed, delivered. Where the page has
-- no room for the next version, it goes to another page and every index gets an
-- entry for it, the one over the keys too, which is the dearest. With a fifth of
-- the page free that was so for most rows of a full queue. With three fifths free
-- a claim of 300 rows takes half the time (4.5 against 9 ms). The space is not
-- lost: the old versions give it back to later rows.

-- +goose Up
ALTER TABLE outbox.fga_outbox SET (fillfactor = 40);
