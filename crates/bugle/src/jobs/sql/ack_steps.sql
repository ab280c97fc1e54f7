-- Ends steps that are done, whose jobs are in queue $1, with outputs $7. An id not returned: its job was lost. look: a queue that has work now, and was not rung for.
SELECT id, look
FROM bugle.ack_steps($1, $2, $3, $4, $5, $6, $7);
