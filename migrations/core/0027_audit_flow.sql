-- The truth about runs, worked out from scratch: slow, and therefore only for `bugle doctor` and for tests. Every counter above must agree.

-- How many parents of each step of a run have not ended, and how many edges to it are satisfied: from scratch.
CREATE FUNCTION bugle.count_parents(p_run bigint) RETURNS TABLE (no smallint, parents_left smallint, satisfied smallint) LANGUAGE sql STABLE AS $$
  SELECT e.to_no, (count(*) FILTER (WHERE NOT p.has_ended))::smallint,
    (count(*) FILTER (WHERE p.has_ended AND CASE e.on_state
      WHEN 'always' THEN true
      WHEN 'failure' THEN p.state = 'failed' AND NOT d.goes_on
      ELSE p.state = 'succeeded' AND (d.kind <> 'decision' OR bugle.is_chosen(bugle.output_of(r.id, d.no), c.name)) OR p.state = 'failed' AND d.goes_on END))::smallint
  FROM bugle.run r
  JOIN bugle.definition_edge e ON e.definition = r.definition
  JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = e.from_no
  JOIN bugle.definition_step c ON c.definition = r.definition AND c.no = e.to_no
  CROSS JOIN LATERAL (
    SELECT s.state, s.state IN ('succeeded', 'failed', 'skipped', 'cancelled') AS has_ended FROM bugle.step s WHERE s.run = r.id AND s.no = e.from_no AND s.idx = 0
  ) p
  WHERE r.id = p_run
  GROUP BY e.to_no
$$;

-- What is wrong with runs that have not ended, a line each. Nothing: all is well.
CREATE FUNCTION bugle.audit_flow(p_namespace text DEFAULT NULL) RETURNS TABLE (run bigint, no smallint, fault text) LANGUAGE sql STABLE AS $$
  WITH live AS (
    SELECT r.* FROM bugle.run r JOIN bugle.namespace n ON n.id = r.namespace
    WHERE p_namespace IS NULL OR n.name = p_namespace
  ), whole AS (
    SELECT s.*, r.definition, d.name, d.kind, d.parents, d.any_parent, d.goes_on, d.seen_to, r.ended_at, r.paused,
      s.state IN ('succeeded', 'failed', 'skipped', 'cancelled') AS has_ended
    FROM live r
    JOIN bugle.step s ON s.run = r.id AND s.idx = 0
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
  ), met AS (
    SELECT r.id AS run, m.* FROM live r CROSS JOIN LATERAL bugle.count_parents(r.id) m WHERE r.ended_at IS NULL
  ), carried AS (
    SELECT (j.payload->>0)::bigint AS run, (j.payload->>1)::smallint AS no, (j.payload->>2)::int AS idx, (j.payload->>3)::int AS epoch, count(*) AS jobs
    FROM (
      SELECT k.queue, k.payload FROM bugle.job k
      UNION ALL SELECT k.queue, k.payload FROM bugle.due k
    ) j
    JOIN bugle.queue q ON q.id = j.queue AND q.holds = 'steps' AND q.id NOT IN (SELECT f.engine FROM bugle.flow f)
    GROUP BY 1, 2, 3, 4
  )
  SELECT w.run, w.no, format('parents_left is %s, and %s of its parents have not ended', w.parents_left, m.parents_left)
  FROM whole w JOIN met m ON m.run = w.run AND m.no = w.no WHERE w.ended_at IS NULL AND w.parents_left <> m.parents_left
  UNION ALL
  SELECT w.run, w.no, format('satisfied is %s, and %s of its edges are', w.satisfied, m.satisfied)
  FROM whole w JOIN met m ON m.run = w.run AND m.no = w.no WHERE w.ended_at IS NULL AND w.satisfied <> m.satisfied
  UNION ALL
  SELECT w.run, w.no, 'it is pending, and all its parents have ended'
  FROM whole w LEFT JOIN met m ON m.run = w.run AND m.no = w.no WHERE w.ended_at IS NULL AND w.state = 'pending' AND coalesce(m.parents_left, 0) = 0
  UNION ALL
  SELECT w.run, w.no, format('it is %s, and %s of its parents have not ended', w.state, m.parents_left)
  FROM whole w JOIN met m ON m.run = w.run AND m.no = w.no WHERE w.ended_at IS NULL AND w.state IN ('ready', 'running', 'waiting') AND m.parents_left > 0
  UNION ALL
  SELECT r.id, NULL, format('steps_left is %s, and %s of its steps have not ended', r.steps_left, c.left_over)
  FROM live r JOIN (SELECT w.run, count(*) FILTER (WHERE NOT w.has_ended) AS left_over FROM whole w GROUP BY w.run) c ON c.run = r.id
  WHERE r.steps_left <> c.left_over
  UNION ALL
  SELECT r.id, NULL, format('it is %s, and nothing of it is left', r.state) FROM live r WHERE r.steps_left = 0 AND r.ended_at IS NULL
  UNION ALL
  SELECT s.run, s.no, format('element %s is %s and is carried by %s jobs', s.idx, s.state, coalesce(c.jobs, 0))
  FROM live r
  JOIN bugle.step s ON s.run = r.id
  JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
  LEFT JOIN carried c ON c.run = s.run AND c.no = s.no AND c.idx = s.idx AND c.epoch = s.epoch
  WHERE r.ended_at IS NULL AND coalesce(c.jobs, 0) <>
    CASE WHEN s.state IN ('ready', 'running') OR s.state = 'waiting' AND s.why IN ('retry', 'snoozed') THEN 1 ELSE 0 END
  UNION ALL
  SELECT s.run, s.no, format('items_left is %s, and %s of its elements have not ended', s.items_left, c.left_over)
  FROM live r
  JOIN bugle.step s ON s.run = r.id AND s.idx = 0 AND s.state = 'waiting' AND s.why = 'map'
  JOIN (
    SELECT e.run, e.no, count(*) FILTER (WHERE e.state IN ('pending', 'ready', 'running', 'waiting')) AS left_over FROM bugle.step e WHERE e.idx > 0 GROUP BY e.run, e.no
  ) c ON c.run = s.run AND c.no = s.no
  WHERE s.items_left <> c.left_over
$$;
