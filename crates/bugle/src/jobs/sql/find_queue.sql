-- The number of queue $2 of namespace $1; NULL: there is no such queue.
SELECT bugle.find_queue($1, $2);
