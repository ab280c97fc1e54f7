-- Makes the partitions of the days to come, seen from $1 (NULL = now). Returns how many.
SELECT bugle.make_partitions(coalesce($1, now()));
