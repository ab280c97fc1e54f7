-- All instances, the newest first; with $1 only those whose current execution has this status.
SELECT i.id
FROM bugle.instance i
LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
WHERE i.name IS NOT NULL AND ($1::text IS NULL OR e.status = $1)
ORDER BY i.created_at DESC, i.id;
