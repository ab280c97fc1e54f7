-- Queues whose maintained counters differ from the rows. Reads every open and dead job.
SELECT q.name::text, c.ready + c.leased AS open_counted, j.n AS open_found, c.scheduled AS scheduled_counted, d.n AS scheduled_found,
  c.dead AS dead_counted, x.n AS dead_found
FROM bugle.queue q
JOIN bugle.queue_count c ON c.queue = q.id
CROSS JOIN LATERAL (SELECT count(*) AS n FROM bugle.job WHERE queue = q.id) j
CROSS JOIN LATERAL (SELECT count(*) AS n FROM bugle.due WHERE queue = q.id) d
CROSS JOIN LATERAL (SELECT count(*) AS n FROM bugle.dead WHERE queue = q.id) x
WHERE (c.ready + c.leased, c.scheduled, c.dead) IS DISTINCT FROM (j.n, d.n, x.n)
ORDER BY q.name;
