-- At most $7 runs of namespace $1, the newest first; of definition $2, in state $3, started at $4 or later, each NULL = any; those that come after
-- the run that was started at $5 with number $6, if one is given.
-- Of all runs the newest are read; of some the newest of each definition and state: no run is read in vain.
WITH of_all AS (
  SELECT r.*
  FROM bugle.namespace n
  CROSS JOIN LATERAL (
    SELECT * FROM bugle.run k
    WHERE k.namespace = n.id AND k.created_at >= coalesce($4, '-infinity'::timestamptz)
      AND (k.created_at, k.id) < (coalesce($5, 'infinity'::timestamptz), coalesce($6::bigint, 0))
    ORDER BY k.created_at DESC, k.id DESC LIMIT $7
  ) r
  WHERE n.name = $1 AND $2::text IS NULL AND $3::text IS NULL
), of_some AS (
  SELECT r.*
  FROM bugle.definitions($1, $2) d
  CROSS JOIN unnest(CASE WHEN $3::text IS NULL THEN '{queued,running,succeeded,failed,cancelled}' ELSE ARRAY[$3] END) AS s (state)
  CROSS JOIN LATERAL bugle.newest_runs(d.id, s.state, coalesce($4, '-infinity'::timestamptz), coalesce($5, 'infinity'::timestamptz), coalesce($6::bigint, 0), $7) r
  WHERE $2::text IS NOT NULL OR $3::text IS NOT NULL
)
SELECT r.id, d.name AS definition, d.version, r.state, r.paused, d.steps, r.steps_left, r.key, r.tags, r.created_at, r.started_at, r.ended_at, r.ends_by
FROM (SELECT * FROM of_all UNION ALL SELECT * FROM of_some) r
JOIN bugle.definition d ON d.id = r.definition
ORDER BY r.created_at DESC, r.id DESC
LIMIT $7;
