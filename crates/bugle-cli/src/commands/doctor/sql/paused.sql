-- The paused queues that have jobs waiting: how many there are by the counters and, of those that have become due meanwhile, up to $1; and
-- for how many seconds the first of them has been due. A pause itself leaves no date.
SELECT n.name AS namespace, q.name AS queue, t.ready + late.n AS waiting, late.n >= $1 AS at_least,
  extract(epoch FROM clock_timestamp() - least(bugle.oldest_ready(ROW(c.*)::bugle.cursor), late.first))::float8 AS seconds
FROM bugle.newest_cursor c
JOIN bugle.queue q ON q.id = c.queue
JOIN bugle.namespace n ON n.id = q.namespace
JOIN bugle.queue_count t ON t.queue = q.id
CROSS JOIN LATERAL (
  SELECT count(*) AS n, min(d.due_at) AS first
  FROM (
    SELECT w.due_at FROM bugle.due w
    WHERE w.queue = q.id AND w.due_at <= clock_timestamp()
    ORDER BY w.due_at LIMIT $1
  ) d
) late
WHERE c.paused AND t.ready + late.n > 0
ORDER BY seconds DESC;
