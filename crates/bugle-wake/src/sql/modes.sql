-- The queues that are not woken in the default way.
SELECT id, mode, (extract(epoch FROM poll_interval) * 1000)::bigint AS poll_ms
FROM bugle.queue
WHERE mode <> 'hybrid' OR poll_interval IS NOT NULL;
