-- The failed attempts of job $1, oldest first.
SELECT failed_at, attempt, worker, code, message
FROM bugle.failure
WHERE id = $1
ORDER BY failed_at;
