-- The partitions of queue $1 with what is in them.
SELECT part, partition, created_at, total, pending, leased, dead, first_at, last_at FROM bugle.partition_counts($1);
