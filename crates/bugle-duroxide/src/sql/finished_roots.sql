-- The next $6 finished instances without a parent, by id, behind the id $5; with the id $1, of the orchestration $2, with the status $3, ended
-- at least $4 ago (each NULL: any). No row: that was all.
-- One that has continued as new lives: its next execution is on the way. One below which something goes on is not finished either.
SELECT i.id
FROM bugle.instance i
JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
WHERE i.parent IS NULL
  AND i.name IS NOT NULL
  AND i.id > $5
  AND e.status IN ('Completed', 'Failed')
  AND ($1::text IS NULL OR i.id = $1)
  AND ($2::text IS NULL OR i.name = $2)
  AND ($3::text IS NULL OR e.status = $3)
  AND ($4::interval IS NULL OR e.completed_at < clock_timestamp() - $4)
  AND bugle.is_over(i.id)
ORDER BY i.id
LIMIT $6;
