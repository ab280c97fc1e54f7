-- Moves group $2 of queue $1 behind everything in partition $3. Its seq; NULL: there is no such group or partition; -1: ask again.
SELECT bugle.seek_partition($1, $2, $3);
