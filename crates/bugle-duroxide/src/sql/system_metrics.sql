-- How much there is of everything.
SELECT count(*) AS instances,
  count(*) FILTER (WHERE e.status = 'Running') AS running,
  count(*) FILTER (WHERE e.status = 'Completed') AS completed,
  count(*) FILTER (WHERE e.status = 'Failed') AS failed,
  (SELECT count(*) FROM bugle.execution) AS executions,
  (SELECT count(*) FROM bugle.history) AS events
FROM bugle.instance i
LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
WHERE i.name IS NOT NULL;
