-- The id of partition $2 of queue $1, made if it is not there. NULL: there is no such queue.
WITH made AS MATERIALIZED (SELECT bugle.declare_partitions(ARRAY[$1], ARRAY[$2::text]))
SELECT (bugle.find_partitions(ARRAY[$1], ARRAY[$2::text]))[1] FROM made;
