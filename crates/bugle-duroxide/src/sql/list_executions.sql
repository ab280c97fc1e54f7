-- The executions of instance $1.
SELECT execution
FROM bugle.execution
WHERE instance = $1
ORDER BY execution;
