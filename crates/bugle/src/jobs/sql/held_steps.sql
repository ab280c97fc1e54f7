-- Which of these jobs of queue $1 are still held. An id not returned: lost, cancelled or ended.
SELECT id
FROM bugle.held_steps($1, $2, $3, $4, $5) AS id;
