-- What is known of instance $1.
SELECT i.name, i.version, i.execution, i.parent, e.status, e.output,
  (extract(epoch FROM i.created_at) * 1000)::bigint AS created_ms,
  (extract(epoch FROM i.updated_at) * 1000)::bigint AS updated_ms
FROM bugle.instance i
LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
WHERE i.id = $1 AND i.name IS NOT NULL;
