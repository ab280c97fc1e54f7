-- What is set for workflows: for all namespaces that say nothing themselves (no name, first), then for namespace $1, or, if that is NULL, for
-- each that has workflows or says something itself, by name. NULL: it says nothing about it.
SELECT n.name COLLATE "C" AS namespace, s.slots_least, s.slots_most, s.steps_most, (extract(epoch FROM s.stale_after) * 1000)::bigint AS stale_ms,
  s.mode, (extract(epoch FROM s.poll_interval) * 1000000)::bigint AS poll_us, s.paused
FROM bugle.namespace n
LEFT JOIN bugle.flow_setting s ON s.namespace = n.id
WHERE CASE WHEN $1::text IS NULL THEN s.namespace IS NOT NULL OR EXISTS (SELECT FROM bugle.flow f WHERE f.namespace = n.id) ELSE n.name = $1 END
UNION ALL
SELECT NULL, s.slots_least, s.slots_most, s.steps_most, (extract(epoch FROM s.stale_after) * 1000)::bigint,
  s.mode, (extract(epoch FROM s.poll_interval) * 1000000)::bigint, s.paused
FROM bugle.flow_setting s
WHERE s.namespace = 0
ORDER BY 1 NULLS FIRST;
