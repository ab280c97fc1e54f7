-- Holds the bell of queue $1 until the session ends.
SELECT pg_advisory_lock(bugle.bell_class(), bugle.bucket_of(bugle.declare_queue($1, 'default')));
