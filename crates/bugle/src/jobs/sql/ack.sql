-- Ends jobs of queue $1 that are done, with results $7 (NULL: none). An id not returned: lost or cancelled.
SELECT id
FROM bugle.ack($1, $2, $3, $4, $5, $6, $7) AS id;
