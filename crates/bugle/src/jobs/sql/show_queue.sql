-- What a list of queues leaves out, of queue $2 of namespace $1. No row: there is no such queue.
SELECT q.id AS number, clock_timestamp() AS now, (extract(epoch FROM q.poll_interval) * 1000)::bigint AS poll_ms,
  (SELECT d.due_at FROM bugle.due d WHERE d.queue = q.id ORDER BY d.due_at LIMIT 1) AS next_due,
  (SELECT l.until FROM bugle.lease l WHERE l.queue = q.id ORDER BY l.until LIMIT 1) AS next_lease_end,
  bugle.bucket_of(q.id) AS bucket,
  (SELECT count(*) FROM bugle.queue o WHERE o.id <> q.id AND bugle.bucket_of(o.id) = bugle.bucket_of(q.id)) AS neighbours,
  ARRAY(
    SELECT regexp_replace(s.application_name, '^bugle listener( \(alert\))? ', '')
    FROM bugle.seat s
    WHERE s.bucket = bugle.bucket_of(q.id)
    ORDER BY s.seat DESC, 1
  ) AS sleepers
FROM bugle.queue q
JOIN bugle.namespace n ON n.id = q.namespace
WHERE n.name = $1 AND q.name = $2;
