-- The jobs of namespace $1 by state, and how many were ever enqueued, failed, taken back; $2 queue, NULL = all. From the maintained counters.
SELECT clock_timestamp() AS at,
  coalesce(sum(c.scheduled), 0)::bigint AS scheduled,
  coalesce(sum(c.ready), 0)::bigint AS ready,
  coalesce(sum(c.leased), 0)::bigint AS leased,
  coalesce(sum(c.done), 0)::bigint AS done,
  coalesce(sum(c.dead), 0)::bigint AS dead,
  coalesce(sum(t.enqueued), 0)::bigint AS enqueued,
  coalesce(sum(t.retried), 0)::bigint AS retried,
  coalesce(sum(t.taken_back), 0)::bigint AS taken_back
FROM bugle.queue q
JOIN bugle.namespace n ON n.id = q.namespace
JOIN bugle.queue_count c ON c.queue = q.id
CROSS JOIN LATERAL (
  SELECT sum(t.n) FILTER (WHERE m.cause = 'enqueue') AS enqueued,
    sum(t.n) FILTER (WHERE m.cause = 'fail' AND m.to_state = 'scheduled') AS retried,
    sum(t.n) FILTER (WHERE m.cause = 'expire') AS taken_back
  FROM bugle.tally t
  JOIN bugle.move m ON m.id = t.move
  WHERE t.queue = q.id
) t
WHERE n.name = $1
  AND ($2::text IS NULL OR q.name = $2);
