-- Who holds how many jobs of namespace $1 and how many seconds the first of its leases still lasts; $2 queue, NULL = all.
SELECT l.worker, count(j.id) AS holds, extract(epoch FROM min(l.until) - clock_timestamp())::float8 AS seconds_left
FROM bugle.lease l
JOIN bugle.queue q ON q.id = l.queue
JOIN bugle.namespace n ON n.id = q.namespace
CROSS JOIN LATERAL bugle.jobs_of(l) j
WHERE n.name = $1
  AND ($2::text IS NULL OR q.name = $2)
GROUP BY l.worker
ORDER BY l.worker;
