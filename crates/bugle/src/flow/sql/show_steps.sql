-- The steps of run $1 in namespace $2, elements of maps behind them.
SELECT d.no, s.idx, d.name, d.kind, s.state, s.attempt, d.attempts, s.worker, s.since, s.due_at, s.why, s.message, s.parents_left, s.items_left, s.progress, v.value AS output
FROM bugle.run r
JOIN bugle.namespace n ON n.id = r.namespace
JOIN bugle.step s ON s.run = r.id
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
LEFT JOIN bugle.flow_value v ON v.run = s.run AND v.no = s.no AND v.idx = s.idx AND v.epoch = s.epoch
WHERE r.id = $1 AND n.name = $2
ORDER BY d.no, s.idx;
