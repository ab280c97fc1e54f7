-- How many instances there are, how deep the queues are, and for how long the first of what is due has been so.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), of_instances AS (
  SELECT count(*) FILTER (WHERE e.status = 'Running') AS running,
    count(*) FILTER (WHERE e.status = 'Completed') AS completed,
    count(*) FILTER (WHERE e.status = 'Failed') AS failed,
    count(*) FILTER (WHERE e.status = 'ContinuedAsNew') AS continued_as_new
  FROM bugle.instance i
  JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
  WHERE i.name IS NOT NULL
), of_turns AS (
  SELECT count(*) FILTER (WHERE b.due <= c.now) AS turns_ready,
    count(*) FILTER (WHERE b.due > c.now AND b.token IS NOT NULL) AS turns_leased,
    count(*) FILTER (WHERE b.due > c.now AND b.due < 'infinity' AND b.token IS NULL) AS turns_later,
    count(*) FILTER (WHERE b.due = 'infinity') AS unbegun,
    (extract(epoch FROM max(c.now - b.due) FILTER (WHERE b.due <= c.now)) * 1000000)::bigint AS turns_oldest_us
  FROM bugle.inbox b
  CROSS JOIN clock c
), of_work AS (
  SELECT count(*) FILTER (WHERE w.due <= c.now) AS work_ready,
    count(*) FILTER (WHERE w.due > c.now AND w.token IS NOT NULL) AS work_leased,
    count(*) FILTER (WHERE w.due > c.now AND w.token IS NULL) AS work_later,
    (extract(epoch FROM max(c.now - w.due) FILTER (WHERE w.due <= c.now)) * 1000000)::bigint AS work_oldest_us
  FROM bugle.work w
  CROSS JOIN clock c
)
SELECT i.*, t.*, w.*,
  (SELECT count(*) FROM bugle.message) AS messages,
  (SELECT count(*) FROM bugle.session s CROSS JOIN clock c WHERE s.until > c.now) AS sessions
FROM of_instances i
CROSS JOIN of_turns t
CROSS JOIN of_work w;
