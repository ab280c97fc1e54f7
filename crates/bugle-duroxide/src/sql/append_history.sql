-- Adds events to execution $2 of instance $1, outside of a turn.
SELECT bugle.append_history($1, $2, $3, $4, $5);
