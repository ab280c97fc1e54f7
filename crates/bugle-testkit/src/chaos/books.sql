-- Every job with its queue and state. A row behind the cursor that no lease covers is an orphan: lost.
SELECT q.name AS queue, v.id, v.attempt::int AS attempt, coalesce(v.x, 0) AS x,
  CASE WHEN v.state = 'leased' AND NOT EXISTS (
    SELECT FROM bugle.lease l
    WHERE l.queue = v.queue AND l.lane = v.priority
      AND (v.x, v.id) > (l.lo_x, l.lo_id) AND (v.x, v.id) <= (l.hi_x, l.hi_id) AND v.x <> ALL (l.skip)
  ) THEN 'orphan' ELSE v.state END AS state
FROM bugle.job_view v
JOIN bugle.queue q ON q.id = v.queue
