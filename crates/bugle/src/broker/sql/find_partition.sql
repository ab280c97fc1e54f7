-- The id of partition $2 of queue $1. NULL: there is none.
SELECT (bugle.find_partitions(ARRAY[$1], ARRAY[$2::text]))[1];
