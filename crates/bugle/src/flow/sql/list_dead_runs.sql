-- At most $5 failed runs of namespace $1, the last to fail first, of definition $2 unless that is NULL; those that come after the one that failed at $3
-- with number $4, if one is given. Each with the step that failed first and that nothing in the definition sees to, of a map with its first element that
-- failed; a run without one was ended by its deadline.
SELECT r.id, d.name AS definition, d.version, r.key, r.created_at, r.ended_at, f.name AS step, coalesce(e.idx, 0) AS element, coalesce(e.why, f.why, 'deadline') AS code,
  coalesce(e.message, f.message, 'the run did not end within its deadline') AS message, coalesce(e.attempt, f.attempt) AS attempt, f.attempts, coalesce(e.worker, f.worker) AS worker, r.failed AS steps_failed
FROM (
  SELECT k.*
  FROM bugle.definitions($1, $2) o
  CROSS JOIN LATERAL bugle.newest_failed(o.id, coalesce($3, 'infinity'::timestamptz), coalesce($4::bigint, 0), $5) k
  ORDER BY k.ended_at DESC, k.id DESC LIMIT $5
) r
JOIN bugle.definition d ON d.id = r.definition
LEFT JOIN LATERAL (
  SELECT s.no, s.why, s.message, s.attempt, s.worker, p.name, p.attempts
  FROM bugle.step s
  JOIN bugle.definition_step p ON p.definition = r.definition AND p.no = s.no
  WHERE s.run = r.id AND s.idx = 0 AND s.state = 'failed' AND NOT p.goes_on AND NOT p.seen_to
  ORDER BY s.since, s.no LIMIT 1
) f ON true
LEFT JOIN LATERAL (
  SELECT s.idx, s.why, s.message, s.attempt, s.worker
  FROM bugle.step s
  WHERE s.run = r.id AND s.no = f.no AND s.idx > 0 AND s.state = 'failed'
  ORDER BY s.since, s.idx LIMIT 1
) e ON true
ORDER BY r.ended_at DESC, r.id DESC;
