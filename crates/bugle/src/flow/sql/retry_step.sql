-- Tries step $2 of run $1 again, of a map element $3 (0: none), in namespace $4, for actor $5 and the reason $6: the state that it was in.
SELECT bugle.retry_step($1, $2, $3, $4, $5, $6);
