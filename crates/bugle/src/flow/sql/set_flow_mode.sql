-- Sets wake mode $1, polled every $2, for namespace $3 or, if that is NULL, for all that say nothing themselves.
SELECT bugle.set_flow_mode($1, $2, $3);
