-- Sets how the waiters of queue $1 of namespace $4 are woken: mode $2, polled every $3.
SELECT bugle.set_mode($1, $2, $3, $4);
