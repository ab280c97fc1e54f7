-- Jobs that were handed out and that no lease covers: nobody would ever run them. Reads every job.
SELECT count(*)
FROM bugle.job j
WHERE bugle.is_claimed(j.queue, j.lane, j.x, j.id)
  AND NOT EXISTS (
    SELECT FROM bugle.lease l
    WHERE l.queue = j.queue AND l.lane = j.lane
      AND (j.x, j.id) > (l.lo_x, l.lo_id) AND (j.x, j.id) <= (l.hi_x, l.hi_id) AND j.x <> ALL (l.skip)
  );
