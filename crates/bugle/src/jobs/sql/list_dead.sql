-- At most $6 dead jobs of namespace $1, the last to die first, each with the error of its last attempt; $2 queue, $3 kind, $4 code, each
-- NULL = any; dead for at least $5.
SELECT d.id, q.name AS queue, d.kind, d.attempt, d.max_attempts, d.enqueued_at, d.died_at, d.key, d.code, d.message, d.worker
FROM bugle.dead d
JOIN bugle.queue q ON q.id = d.queue
JOIN bugle.namespace n ON n.id = q.namespace
WHERE n.name = $1
  AND ($2::text IS NULL OR q.name = $2)
  AND ($3::text IS NULL OR d.kind = $3)
  AND ($4::text IS NULL OR d.code = $4)
  AND d.died_at <= clock_timestamp() - $5::interval
ORDER BY d.died_at DESC, d.id DESC
LIMIT $6;
