-- Queues of steps in which one has been ready for longer than it may, and of which nobody holds anything: their namespace, for how many
-- seconds, how they are woken, and whether a node sleeps for their bucket, which other queues share.
SELECT e.name AS namespace, q.name AS queue, q.mode, extract(epoch FROM clock_timestamp() - first.due)::float8 AS seconds,
  EXISTS (SELECT FROM bugle.seat s WHERE s.bucket = bugle.bucket_of(q.id)) AS sleeps
FROM bugle.flow_effective e
JOIN bugle.queue q ON q.namespace = e.namespace AND q.holds = 'steps'
JOIN bugle.newest_cursor c ON c.queue = q.id AND NOT c.paused
CROSS JOIN LATERAL (SELECT bugle.oldest_ready(ROW(c.*)::bugle.cursor) AS due) first
WHERE first.due < clock_timestamp() - coalesce(e.stale_after, interval '5 seconds')
  AND NOT EXISTS (SELECT FROM bugle.lease l WHERE l.queue = q.id AND l.until > clock_timestamp())
ORDER BY seconds DESC;
