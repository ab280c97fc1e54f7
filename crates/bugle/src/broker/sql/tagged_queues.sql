-- The queues of messages of the namespace with number $1 that have the tags $2 and $3 (NULL: any), the highest priority first.
SELECT q.name, q.id
FROM bugle.queue q
JOIN bugle.message_queue m ON m.queue = q.id
WHERE q.namespace = $1 AND ($2::text IS NULL OR m.tag_namespace = $2) AND ($3::text IS NULL OR m.tag_task = $3)
ORDER BY m.priority DESC NULLS LAST, q.name;
