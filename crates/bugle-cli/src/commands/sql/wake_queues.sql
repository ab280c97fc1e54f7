-- The queues: how they are woken, who sleeps for them, and when something happens by itself.
SELECT n.name AS namespace, q.name AS queue, q.mode, c.paused, bugle.bucket_of(q.id) AS bucket,
  (SELECT regexp_replace(s.application_name, '^bugle listener( \(alert\))? ', '') FROM bugle.seat s
   WHERE s.bucket = bugle.bucket_of(q.id) AND s.seat = 'sentinel' LIMIT 1) AS sentinel,
  (SELECT count(*) FROM bugle.seat s WHERE s.bucket = bugle.bucket_of(q.id) AND s.seat = 'reserve') AS reserves,
  (SELECT d.due_at FROM bugle.due d WHERE d.queue = q.id ORDER BY d.due_at LIMIT 1) AS next_due,
  (SELECT l.until FROM bugle.lease l WHERE l.queue = q.id ORDER BY l.until LIMIT 1) AS next_lease_end
FROM bugle.queue q
JOIN bugle.namespace n ON n.id = q.namespace
JOIN bugle.newest_cursor c ON c.queue = q.id
ORDER BY 1, 2;
