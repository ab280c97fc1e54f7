-- Makes everything in queue $1 invisible.
SELECT bugle.clear_queue($1);
