-- The namespaces that have workflows and whose names fit one of $2, with the number of the queue of steps $1 if there is one.
SELECT e.namespace, e.name, e.engine, q.id AS queue, e.slots_least, e.slots_most,
  (extract(epoch FROM e.stale_after) * 1000)::bigint AS stale_ms
FROM bugle.flow_effective e
LEFT JOIN bugle.queue q ON q.namespace = e.namespace AND q.name = $1 AND q.holds = 'steps' AND q.id <> e.engine
WHERE EXISTS (SELECT FROM unnest($2) AS pattern WHERE bugle.fits(e.name, pattern))
ORDER BY e.namespace;
