-- The ends of jobs that are waited for: of queues $1, $3 that were open in the snapshots $2 of their queues, and $4 by id. A job without a row has not ended.
SELECT queue, seen, queue_name, keeps_history, id, state, attempt, ended_at, worker, result, code, message
FROM bugle.look_ends($1, $2, $3, $4);
