-- Removes earlier executions of up to $3 instances, those of $1 that ended before $2 ms, but for the $4 newest and those that ended later than $5 ms.
SELECT instances, executions, events
FROM bugle.prune($1, to_timestamp($2::bigint / 1000.0), $3, $4, to_timestamp($5::bigint / 1000.0));
