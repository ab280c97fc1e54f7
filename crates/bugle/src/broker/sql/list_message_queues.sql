-- The queues of messages of the namespace with number $1, with tags $2 and $3 and the name $4 unless they are NULL, and what is in them.
SELECT q.id, q.name, q.mode, q.created_at, m.tag_namespace, m.tag_task, m.lease_seconds, m.retry_limit, m.retry_delay_ms, m.delay_seconds, m.window_seconds,
  m.messages_max, m.ttl_seconds, m.priority, m.retention_enabled, m.retention_seconds, m.completed_retention_seconds, m.wait_seconds_max,
  m.encryption_enabled, m.dead_letter_queue, m.dead_letter_after_retries, c.partitions, c.total, c.pending, c.leased, c.dead
FROM bugle.queue q
JOIN bugle.message_queue m ON m.queue = q.id
CROSS JOIN LATERAL (
  SELECT count(*) AS partitions, coalesce(sum(p.total), 0)::bigint AS total, coalesce(sum(p.pending), 0)::bigint AS pending,
    coalesce(sum(p.leased), 0)::bigint AS leased, coalesce(sum(p.dead), 0)::bigint AS dead
  FROM bugle.partition_counts(q.id) p
) c
WHERE q.namespace = $1 AND ($2::text IS NULL OR m.tag_namespace = $2) AND ($3::text IS NULL OR m.tag_task = $3) AND ($4::text IS NULL OR q.name = $4)
ORDER BY q.name;
