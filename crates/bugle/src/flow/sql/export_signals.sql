-- The signals of namespace $1 that nobody has taken, as an export has them.
SELECT jsonb_build_object('id', s.id, 'key', s.key, 'payload', s.payload, 'actor', s.actor, 'sent_at', s.sent_at)::text
FROM bugle.namespace n
JOIN bugle.signal s ON s.namespace = n.id
WHERE n.name = $1
ORDER BY s.id;
