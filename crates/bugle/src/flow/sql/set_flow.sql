-- Sets what $1 names, for namespace $2 or, if that is NULL, for all that say nothing themselves.
SELECT bugle.set_flow($1, $2);
