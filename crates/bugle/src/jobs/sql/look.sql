-- One look for all asks: under tokens $1, of queues $2 (ascending), for workers $3, at most $4 jobs each, leased for $5; $6: sweep even if full.
SELECT ask, got, again_us, claimed_at, inlined, lane, x, id, attempt, max_attempts, enqueued_at, due_at, kind, key, payload, until
FROM bugle.look($1, $2, $3, $4, $5, $6);
