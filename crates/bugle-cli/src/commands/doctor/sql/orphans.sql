-- Jobs that were handed out and that no lease covers: nobody would ever run them. Reads every job.
SELECT count(*)
FROM bugle.job_view v
WHERE v.state = 'leased'
  AND NOT EXISTS (
    SELECT FROM bugle.lease l
    WHERE l.queue = v.queue AND l.lane = v.priority
      AND (v.x, v.id) > (l.lo_x, l.lo_id) AND (v.x, v.id) <= (l.hi_x, l.hi_id) AND v.x <> ALL (l.skip)
  );
