-- Pauses run $1 of namespace $2, for actor $3 and the reason $4. False: it was paused already, or has ended.
SELECT bugle.pause_run($1, $2, $3, $4);
