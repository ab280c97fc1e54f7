-- Ends step $2 of run $1 by hand with output $3, in namespace $4, for actor $5 and the reason $6: the state that it was in.
SELECT bugle.resolve_step($1, $2, $3, $4, $5, $6);
