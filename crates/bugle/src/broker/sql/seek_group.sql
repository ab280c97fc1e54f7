-- Moves group $2 of queue $1 to $3, at $4. False: there is no such queue.
SELECT bugle.seek_group($1, $2, $3, $4);
