-- Ends job $1 if it is open. NULL: namespace $2 has no such open job.
SELECT bugle.cancel($1, $2);
