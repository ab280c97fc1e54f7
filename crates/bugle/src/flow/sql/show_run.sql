-- Run $1 of namespace $2. No row: there is none.
SELECT r.id, d.name AS definition, d.version, r.state, r.paused, r.steps_left, r.key, r.tags, r.created_at, r.started_at, r.ended_at, r.ends_by, v.value AS input
FROM bugle.run r
JOIN bugle.namespace n ON n.id = r.namespace
JOIN bugle.definition d ON d.id = r.definition
JOIN bugle.flow_value v ON v.run = r.id AND v.no = 0
WHERE r.id = $1 AND n.name = $2;
