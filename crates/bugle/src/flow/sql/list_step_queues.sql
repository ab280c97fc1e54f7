-- The queues of steps of namespace $1 with how many are in which state, from the maintained counters, without what Bugle does itself.
SELECT q.name, q.mode, cur.paused, c.scheduled, c.ready, c.leased, c.done, c.dead, c.cancelled,
  bugle.oldest_ready(ROW(cur.*)::bugle.cursor) AS oldest_ready
FROM bugle.flow f
JOIN bugle.namespace n ON n.id = f.namespace
JOIN bugle.queue q ON q.namespace = f.namespace AND q.holds = 'steps' AND q.id <> f.engine
JOIN bugle.queue_count c ON c.queue = q.id
JOIN bugle.newest_cursor cur ON cur.queue = q.id
WHERE n.name = $1
ORDER BY q.name;
