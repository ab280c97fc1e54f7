-- Instances, the newest first, at most $5: with the id $1, of the orchestration $2, with the status $3, ended at least $4 ago (each NULL: any).
SELECT i.id, i.name, i.version, i.execution, i.parent, i.custom_status, coalesce(e.status, 'Unknown') AS status,
  (extract(epoch FROM i.created_at) * 1000)::bigint AS created_ms,
  (extract(epoch FROM i.updated_at) * 1000)::bigint AS updated_ms,
  (extract(epoch FROM e.completed_at) * 1000)::bigint AS ended_ms
FROM bugle.instance i
LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
WHERE i.name IS NOT NULL
  AND ($1::text IS NULL OR i.id = $1)
  AND ($2::text IS NULL OR i.name = $2)
  AND ($3::text IS NULL OR e.status = $3)
  AND ($4::interval IS NULL OR e.completed_at < clock_timestamp() - $4)
ORDER BY i.created_at DESC, i.id
LIMIT $5;
