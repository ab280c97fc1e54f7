-- The steps of run $1 in namespace $2, elements of maps behind them: all, or of each map at most $3, those first that failed or have not ended.
WITH shown AS (
  SELECT s.*, row_number() OVER (
    PARTITION BY s.no
    ORDER BY s.idx > 0, array_position('{failed,running,waiting,ready,pending,cancelled,skipped,succeeded}', s.state), s.idx
  ) AS place
  FROM bugle.step s
  WHERE s.run = $1
)
SELECT d.no, s.idx, d.name, d.kind, s.state, s.attempt, d.attempts, s.worker, s.since, s.due_at, s.why, s.message, s.parents_left, s.items_left, s.progress, v.value AS output
FROM bugle.run r
JOIN bugle.namespace n ON n.id = r.namespace
JOIN shown s ON s.run = r.id
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
LEFT JOIN bugle.flow_value v ON v.run = s.run AND v.no = s.no AND v.idx = s.idx AND v.epoch = s.epoch
WHERE r.id = $1 AND n.name = $2 AND ($3::int IS NULL OR s.place <= $3 + 1)
ORDER BY d.no, s.idx;
