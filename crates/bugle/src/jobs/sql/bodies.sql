-- The jobs of lease $1.
SELECT lane, x, id, attempt, max_attempts, enqueued_at, due_at, kind, key, extra, payload, until
FROM bugle.bodies($1);
