-- Work, one element of each array for each.
SELECT bugle.enqueue_work($1, $2, $3, $4, $5, $6);
