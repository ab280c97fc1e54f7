-- One look for all asks: under tokens $1, of queues $2 (ascending), for workers $3, at most $4 jobs each, leased for $5; $6: sweep even if full;
-- $7 and $8: nothing is due and no lease ends before.
SELECT ask, got, again_us, claimed_at, next_due, next_expiry, inlined, lane, x, id, attempt, max_attempts, enqueued_at, due_at, kind, key, extra, payload, until
FROM bugle.look($1, $2, $3, $4, $5, $6, $7, $8);
