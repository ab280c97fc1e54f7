-- Who has held one of Bugle's locks for more than $1 seconds, or waited for one.
SELECT name, pid, coalesce(who, '?') AS who, granted, seconds
FROM (
  SELECT ours.name, l.pid, l.granted,
    format('user %s (%s, %s)', a.usename, coalesce(nullif(a.application_name, ''), 'no name'), a.state) AS who,
    extract(epoch FROM clock_timestamp() - CASE WHEN l.granted THEN coalesce(a.xact_start, a.state_change) ELSE l.waitstart END)::float8 AS seconds
  FROM pg_locks l
  JOIN (VALUES
    ('claim', bugle.claim_class()::bigint & 4294967295),
    ('sweep', bugle.sweep_class()::bigint & 4294967295),
    ('migrate', NULL)
  ) AS ours (name, class) ON CASE
    WHEN ours.name = 'migrate'
      THEN l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('bugle.migrate', 0)
    ELSE l.objsubid = 2 AND l.classid::bigint = ours.class
  END
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
) held
WHERE seconds > $1
ORDER BY granted DESC, seconds DESC;
