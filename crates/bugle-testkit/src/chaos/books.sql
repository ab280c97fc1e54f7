-- Every job with its queue and state. A row behind the cursor that no lease covers is an orphan: lost.
SELECT q.name AS queue, v.id, v.attempt::int AS attempt, coalesce(v.x, 0) AS x,
  CASE WHEN v.state = 'leased' AND NOT EXISTS (
    SELECT FROM bugle.lease l
    WHERE l.queue = v.queue AND bugle.covers(l, v.priority, v.x, v.id)
  ) THEN 'orphan' ELSE v.state END AS state
FROM bugle.job_view v
JOIN bugle.queue q ON q.id = v.queue
