-- Skips step $2 of run $1 in namespace $3, for actor $4 and the reason $5: the state that it was in.
SELECT bugle.skip_step($1, $2, $3, $4, $5);
