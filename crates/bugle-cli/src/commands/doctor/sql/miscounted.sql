-- Counters that differ from the rows, by queue and state. Reads every job that has not ended well.
WITH counted AS (
  SELECT c.queue, s.state, s.n
  FROM bugle.queue_count c
  CROSS JOIN LATERAL (VALUES ('scheduled', c.scheduled), ('ready', c.ready), ('leased', c.leased), ('dead', c.dead)) AS s (state, n)
), found AS (
  SELECT v.queue, v.state, count(*) AS n
  FROM bugle.job_view v
  WHERE v.state IN ('scheduled', 'ready', 'leased', 'dead')
  GROUP BY v.queue, v.state
)
SELECT q.name::text, c.state, c.n AS counted, coalesce(f.n, 0) AS found
FROM counted c
JOIN bugle.queue q ON q.id = c.queue
LEFT JOIN found f ON f.queue = c.queue AND f.state = c.state
WHERE c.n <> coalesce(f.n, 0)
ORDER BY q.name, c.state;
