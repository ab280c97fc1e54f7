-- Removes up to $3 finished instances with their trees: those of $1 that ended before $2 ms.
SELECT instances, executions, events, messages
FROM bugle.delete_finished($1, to_timestamp($2::bigint / 1000.0), $3);
