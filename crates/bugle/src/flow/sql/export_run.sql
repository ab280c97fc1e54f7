-- Run $1 of namespace $2 as an export has it, and the number of its definition. No row: there is none.
SELECT r.definition, (jsonb_strip_nulls(jsonb_build_object('id', r.id, 'definition', d.name, 'version', d.version, 'lane', r.lane, 'key', r.key, 'key_until', k.until,
    'created_at', r.created_at, 'ends_by', r.ends_by)) || CASE WHEN r.tags IS NULL THEN '{}' ELSE jsonb_build_object('tags', r.tags) END)::text AS line
FROM bugle.run r
JOIN bugle.namespace n ON n.id = r.namespace
JOIN bugle.definition d ON d.id = r.definition
JOIN bugle.flow f ON f.namespace = r.namespace
LEFT JOIN bugle.job_key k ON k.queue = f.engine AND k.key = d.name || E'\n' || r.key AND k.id = r.id
WHERE r.id = $1 AND n.name = $2;
