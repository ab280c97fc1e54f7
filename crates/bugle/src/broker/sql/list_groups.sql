-- The groups of the namespace with number $1, of queue $2 unless that is NULL.
SELECT g.name, q.name AS queue, g.mode, g.start_at, g.created_at, l.partitions, l.lag, l.partitions_behind, l.first_at
FROM bugle.queue q
JOIN bugle.consumer_group g ON g.queue = q.id
CROSS JOIN LATERAL (
  SELECT count(*) AS partitions, coalesce(sum(k.lag), 0)::bigint AS lag, count(*) FILTER (WHERE k.lag > 0) AS partitions_behind, min(k.first_at) AS first_at
  FROM bugle.group_lag(q.id, g.name) k
) l
WHERE q.namespace = $1 AND ($2::text IS NULL OR q.name = $2)
ORDER BY q.name, g.name;
