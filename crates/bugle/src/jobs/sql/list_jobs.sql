-- At most $5 jobs of namespace $1, newest first; $2 queue, $3 state, $4 kind, each NULL = any.
SELECT v.id, q.name AS queue, v.kind, v.state, v.priority, v.attempt, v.max_attempts, v.enqueued_at, v.due_at, v.finished_at, v.key
FROM bugle.job_view v
JOIN bugle.queue q ON q.id = v.queue
JOIN bugle.namespace n ON n.id = q.namespace
WHERE n.name = $1
  AND ($2::text IS NULL OR q.name = $2)
  AND ($3::text IS NULL OR v.state = $3)
  AND ($4::text IS NULL OR v.kind = $4)
ORDER BY v.id DESC
LIMIT $5;
