-- Who keeps dead rows of this database from being removed, the worst first: sessions, prepared transactions, replication slots.
SELECT kind, who, holds_back, seconds, remedy
FROM (
  SELECT 'session' AS kind,
    format('process %s of user %s (%s, %s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), 'no name'), state) AS who,
    greatest(age(backend_xmin), age(backend_xid))::bigint AS holds_back,
    extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
    format('SELECT pg_terminate_backend(%s)', pid) AS remedy
  FROM pg_stat_activity
  WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND (datname = current_database() OR backend_type = 'walsender')
    AND backend_type <> 'autovacuum worker'
    AND pid <> pg_backend_pid()
  UNION ALL
  SELECT 'prepared transaction', format('%s of user %s', gid, owner), age(transaction)::bigint,
    extract(epoch FROM clock_timestamp() - prepared)::float8, format('ROLLBACK PREPARED %L', gid)
  FROM pg_prepared_xacts
  WHERE database = current_database()
  UNION ALL
  SELECT 'replication slot', format('%s (%s)', slot_name, CASE WHEN active THEN 'in use' ELSE 'not in use' END), age(xmin)::bigint,
    NULL, format('SELECT pg_drop_replication_slot(%L)', slot_name)
  FROM pg_replication_slots
  WHERE xmin IS NOT NULL
) h
ORDER BY seconds DESC NULLS LAST;
