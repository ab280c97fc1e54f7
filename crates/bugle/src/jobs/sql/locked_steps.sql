-- Which of these jobs of queue $1 somebody else's open transaction holds. An id not returned: it can be settled, or is gone.
SELECT id
FROM bugle.locked_steps($1, $2, $3, $4) AS id;
