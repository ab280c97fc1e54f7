-- The number of the queue that job $2 of namespace $1 is or was in. No row: there is no such job (any more).
-- In this order, and no further than it takes: only jobs that are ready or leased for the first time have to be searched for.
SELECT f.queue
FROM (
  SELECT h.queue FROM bugle.history h WHERE h.id = $2
  UNION ALL
  SELECT d.queue FROM bugle.dead d WHERE d.id = $2
  UNION ALL
  SELECT d.queue FROM bugle.due d WHERE d.id = $2
  UNION ALL
  SELECT j.queue FROM bugle.job j WHERE j.id = $2 AND j.attempt > 0
  UNION ALL
  SELECT j.queue FROM bugle.job j WHERE j.id = $2
) f
JOIN bugle.queue q ON q.id = f.queue
JOIN bugle.namespace n ON n.id = q.namespace
WHERE n.name = $1
LIMIT 1;
