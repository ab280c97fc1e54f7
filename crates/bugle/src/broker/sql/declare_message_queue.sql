-- The number of queue $1 of namespace $2, made if it is not there. Fails with BGL04 when it holds jobs.
SELECT bugle.declare_queue($1, $2, 'messages');
