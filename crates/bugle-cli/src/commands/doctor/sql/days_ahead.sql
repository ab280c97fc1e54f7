-- For how many days after today all tables that are kept by the day have partitions.
SELECT coalesce(min(newest - (now() AT TIME ZONE 'UTC')::date), -1)::int
FROM (
  SELECT max(to_date(right(c.relname, 8), 'YYYYMMDD')) AS newest
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  JOIN bugle.by_day d ON to_regclass(format('%s%I', 'bugle.', d.name)) = i.inhparent
  WHERE c.relname ~ '_[0-9]{8}$'
  GROUP BY i.inhparent
  HAVING count(*) > 0
) newest;
