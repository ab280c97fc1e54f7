-- Gives steps back that were begun, the attempt not counted. An id not returned: lost or cancelled.
SELECT id
FROM bugle.release_steps($1, $2, $3, $4, $5, $6) AS id;
