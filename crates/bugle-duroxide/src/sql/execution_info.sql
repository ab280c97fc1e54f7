-- What is known of execution $2 of instance $1.
SELECT e.status, e.output,
  (extract(epoch FROM e.started_at) * 1000)::bigint AS started_ms,
  (extract(epoch FROM e.completed_at) * 1000)::bigint AS completed_ms,
  (SELECT count(*) FROM bugle.history h WHERE h.instance = e.instance AND h.execution = e.execution) AS events
FROM bugle.execution e
WHERE e.instance = $1 AND e.execution = $2;
