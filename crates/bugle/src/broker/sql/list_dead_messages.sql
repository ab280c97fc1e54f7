-- Dead letters of the namespace with number $1, of queue $2 and group $3 unless those are NULL: $4 of them behind the first $5, the last to die first.
SELECT d.id, d.key, d.trace, d.sub, d.queue_name AS queue, d.part, p.name AS partition, d.group_name, d.error, d.tries, d.at, d.died_at, d.payload
FROM (   -- what is not shown is not joined
  SELECT e.*, q.name AS queue_name
  FROM bugle.dead_message e
  JOIN bugle.queue q ON q.id = e.queue
  WHERE q.namespace = $1 AND ($2::text IS NULL OR q.name = $2) AND ($3::text IS NULL OR e.group_name = $3)
  ORDER BY e.died_at DESC, e.seq DESC
  LIMIT $4 OFFSET $5
) d
JOIN bugle.partition p ON p.id = d.part
ORDER BY d.died_at DESC, d.seq DESC;
