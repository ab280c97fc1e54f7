-- Runs step $2 of run $1 and all that comes after it once more, in namespace $3, for actor $4 and the reason $5: how many begin anew.
SELECT bugle.restart_from($1, $2, $3, $4, $5);
