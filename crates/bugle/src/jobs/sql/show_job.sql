-- Job $2 of namespace $1 with its payload and, when leased, who holds it until when; when ended, who ended it and what came of it. No row: there is no such job (any more).
SELECT v.id, q.name AS queue, v.kind, v.state, v.priority, v.attempt, v.max_attempts, v.enqueued_at, v.due_at, v.finished_at, v.key,
  v.payload, v.x, l.worker, l.claimed_at, l.until AS lease_until, v.ended_by, v.result
FROM bugle.job_view v
JOIN bugle.queue q ON q.id = v.queue
JOIN bugle.namespace n ON n.id = q.namespace
LEFT JOIN LATERAL (
  SELECT l.worker, l.claimed_at, l.until FROM bugle.lease l
  WHERE v.state = 'leased' AND l.queue = v.queue AND bugle.covers(l, v.priority, v.x, v.id)
  LIMIT 1
) l ON true
WHERE n.name = $1 AND v.id = $2
LIMIT 1;
