-- The number of queue $1 in namespace $2, made if need be.
SELECT bugle.declare_queue($1, $2);
