-- Jobs that were handed out and that no lease covers: nobody would ever run them. Reads every job.
SELECT count(*)
FROM bugle.job_view v
WHERE v.state = 'leased'
  AND NOT EXISTS (
    SELECT FROM bugle.lease l
    WHERE l.queue = v.queue AND bugle.covers(l, v.priority, v.x, v.id)
  );
