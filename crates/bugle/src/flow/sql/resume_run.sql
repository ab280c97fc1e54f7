-- Lets run $1 of namespace $2 go on, for actor $3 and the reason $4. False: it was not paused.
SELECT bugle.resume_run($1, $2, $3, $4);
