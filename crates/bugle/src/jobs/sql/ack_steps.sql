-- Ends steps that are done, whose jobs are in queue $1, with outputs $7. An id not returned: its job was lost.
SELECT id
FROM bugle.ack_steps($1, $2, $3, $4, $5, $6, $7) AS id;
