-- For how many days after today both history and failure have partitions.
SELECT coalesce(min(newest - (now() AT TIME ZONE 'UTC')::date), -1)::int
FROM (
  SELECT max(to_date(right(c.relname, 8), 'YYYYMMDD')) AS newest
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent IN ('bugle.history'::regclass, 'bugle.failure'::regclass)
    AND c.relname ~ '_[0-9]{8}$'
  GROUP BY i.inhparent
  HAVING count(*) > 0
) newest;
