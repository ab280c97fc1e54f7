-- The queues of namespace $1 with how many jobs are in which state, from the maintained counters; only the queue $2 unless that is NULL.
SELECT q.name, q.mode, cur.paused, c.scheduled, c.ready, c.leased, c.done, c.dead, c.cancelled,
  bugle.oldest_ready(ROW(cur.*)::bugle.cursor) AS oldest_ready
FROM bugle.queue q
JOIN bugle.namespace n ON n.id = q.namespace
JOIN bugle.queue_count c ON c.queue = q.id
JOIN bugle.newest_cursor cur ON cur.queue = q.id
WHERE n.name = $1 AND ($2::text IS NULL OR q.name = $2)
ORDER BY q.name;
