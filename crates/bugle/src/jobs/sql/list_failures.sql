-- The failed attempts of job $1, oldest first; of a dead one at least the last. (Old ones are dropped first: while there is any, the last is there.)
SELECT f.failed_at, f.attempt, f.worker, f.code, f.message
FROM bugle.failure f
WHERE f.id = $1
UNION ALL
SELECT d.died_at, d.attempt, d.worker, d.code, d.message
FROM bugle.dead d
WHERE d.id = $1 AND NOT EXISTS (SELECT FROM bugle.failure k WHERE k.id = d.id)
ORDER BY failed_at;
