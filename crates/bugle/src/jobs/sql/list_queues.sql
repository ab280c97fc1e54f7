-- The queues of namespace $1 with how many jobs are in which state, from the maintained counters.
SELECT q.name, q.mode, c.scheduled, c.ready, c.leased, c.done, c.dead, c.cancelled
FROM bugle.queue q
JOIN bugle.namespace n ON n.id = q.namespace
JOIN bugle.queue_count c ON c.queue = q.id
WHERE n.name = $1
ORDER BY q.name;
