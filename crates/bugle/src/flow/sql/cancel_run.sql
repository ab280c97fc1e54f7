-- Cancels run $1 of namespace $2, for actor $3 and the reason $4. False: there is none that has not ended.
SELECT bugle.cancel_run($1, $2, $3, $4);
