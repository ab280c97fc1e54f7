-- What could be deleted, by orchestration and status, the most first: finished instances without a parent, with all below them.
-- With the id $1, of the orchestration $2, with the status $3, ended at least $4 ago (each NULL: any).
-- One that has continued as new lives: its next execution is on the way. One below which something goes on is not finished either.
WITH RECURSIVE tree (id, root, goes_on) AS (
  SELECT i.id, i.id, false
  FROM bugle.instance i
  JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
  WHERE i.parent IS NULL
    AND i.name IS NOT NULL
    AND e.status IN ('Completed', 'Failed')
    AND ($1::text IS NULL OR i.id = $1)
    AND ($2::text IS NULL OR i.name = $2)
    AND ($3::text IS NULL OR e.status = $3)
    AND ($4::interval IS NULL OR e.completed_at < clock_timestamp() - $4)
  UNION ALL
  SELECT i.id, t.root, bugle.goes_on(i.id, e.status)
  FROM tree t
  JOIN bugle.instance i ON i.parent = t.id
  LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
), finished AS (
  SELECT root, count(*) AS instances
  FROM tree
  GROUP BY root
  HAVING NOT coalesce(bool_or(goes_on), false)
)
SELECT i.name, e.status,
  count(*) AS roots,
  sum(f.instances)::bigint AS instances,
  (extract(epoch FROM min(e.completed_at)) * 1000)::bigint AS oldest_ms,
  (extract(epoch FROM max(e.completed_at)) * 1000)::bigint AS newest_ms
FROM finished f
JOIN bugle.instance i ON i.id = f.root
JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
GROUP BY i.name, e.status
ORDER BY sum(f.instances) DESC, i.name, e.status;
