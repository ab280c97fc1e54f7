-- The history of execution $2 of instance $1.
SELECT data
FROM bugle.history
WHERE instance = $1 AND execution = $2
ORDER BY event;
