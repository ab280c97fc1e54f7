-- What the steps of run $1 that failed, of a map its elements, at most $2 of them, had before them: the outputs of their parents, the element, what an earlier attempt had kept.
-- Of the run see that it belongs to the namespace.
SELECT d.no, d.name AS step, s.idx AS element, s.why AS code, s.message, s.attempt, d.attempts, s.worker, s.since AS failed_at, d.goes_on OR d.seen_to AS is_seen_to, s.checkpoint,
  CASE WHEN s.idx > 0 THEN (bugle.output_of(r.id, coalesce(d.over_no, 0::smallint)) #> d.over_at) -> (s.idx - 1) END AS value,
  coalesce((
    SELECT jsonb_object_agg(p.name, bugle.output_of(r.id, e.from_no))
    FROM bugle.definition_edge e
    JOIN bugle.definition_step p ON p.definition = e.definition AND p.no = e.from_no
    JOIN bugle.step ps ON ps.run = r.id AND ps.no = e.from_no AND ps.idx = 0 AND ps.state = 'succeeded'
    WHERE e.definition = d.definition AND e.to_no = d.no), '{}') AS parents
FROM bugle.run r
JOIN bugle.step s ON s.run = r.id AND s.state = 'failed'
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
WHERE r.id = $1
ORDER BY s.since, s.no, s.idx > 0 DESC, s.idx
LIMIT $2;
