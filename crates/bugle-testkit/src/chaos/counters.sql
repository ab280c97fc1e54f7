-- What the maintained counters say.
SELECT q.name AS queue, c.scheduled, c.ready, c.leased, c.done, c.dead, c.cancelled
FROM bugle.queue_count c
JOIN bugle.queue q ON q.id = c.queue
