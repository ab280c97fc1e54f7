-- The steps of run $1 that have not ended, each with what it stands on; the elements of a map together that are in the same state for the same reason. Of the run
-- see that it belongs to the namespace.
SELECT d.no, d.name, d.kind, q.name AS queue, s.idx > 0 AS is_element, s.state, s.why, count(*) AS n, min(s.idx) AS first, min(s.since) AS since, min(s.due_at) AS due_at,
  max(s.attempt) AS attempt, d.attempts, max(s.message) AS message, d.at_once, replace(d.signal_key, '{run}', $1::text) AS signal_key,
  (array_agg(DISTINCT s.worker) FILTER (WHERE s.worker IS NOT NULL))[1:10] AS workers, l.is_held, min(l.until) AS lease_until,
  min(r.limit_most) AS limit_most, min(r.limit_held) AS limit_held, max(s.items_left) AS items_left, max(s.items_failed) AS items_failed, clock_timestamp() AS now,
  CASE WHEN s.state = 'pending' AND NOT s.idx > 0 THEN (
    SELECT jsonb_agg(jsonb_build_object('step', p.name, 'state', ps.state, 'on', e.on_state) ORDER BY p.no)
    FROM bugle.definition_edge e
    JOIN bugle.definition_step p ON p.definition = e.definition AND p.no = e.from_no
    JOIN bugle.step ps ON ps.run = $1 AND ps.no = e.from_no AND ps.idx = 0
    WHERE e.definition = d.definition AND e.to_no = d.no AND ps.state NOT IN ('succeeded', 'failed', 'skipped', 'cancelled')) END AS parents
FROM (   -- what is held under the limit is counted once, whatever the number of steps
  SELECT k.*, u.most AS limit_most, u.n AS limit_held
  FROM bugle.run k
  JOIN bugle.flow f ON f.namespace = k.namespace
  LEFT JOIN LATERAL bugle.held_under(f.claim_limit, clock_timestamp()) u ON true
  WHERE k.id = $1 OFFSET 0
) r
JOIN bugle.step s ON s.run = r.id AND s.state IN ('pending', 'ready', 'running', 'waiting')
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
LEFT JOIN bugle.flow_routed t ON d.is_routed AND t.namespace = r.namespace AND t.lane = coalesce(r.lane, d.lane)
JOIN bugle.queue q ON q.id = coalesce(t.queue, d.queue)
LEFT JOIN LATERAL (
  SELECT k.until, k.until > clock_timestamp() AS is_held FROM bugle.lease k WHERE k.token = s.token AND s.state = 'running'
) l ON true
GROUP BY d.definition, d.no, q.name, s.idx > 0, s.state, s.why, l.is_held
ORDER BY d.no, s.idx > 0, array_position('{running,ready,waiting,pending}', s.state), 9;
