-- The number of the queue of steps $1 in namespace $2, made on first use.
SELECT bugle.declare_step_queue($1, $2);
