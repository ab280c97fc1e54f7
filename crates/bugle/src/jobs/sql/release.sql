-- Gives jobs back, the attempt not counted. An id not returned: lost or cancelled.
SELECT id
FROM bugle.release($1, $2, $3, $4, $5, $6) AS id;
