-- Drops the partitions that are too old, seen from $1 (NULL = now). Returns how many.
SELECT bugle.drop_partitions(coalesce($1, now()));
