-- Ends job $1 if it is open. NULL: there is no such open job.
SELECT bugle.cancel($1);
