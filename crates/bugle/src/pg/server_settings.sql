-- What the server is, and what decides whether an acknowledged commit survives a crash.
SELECT current_setting('server_version') AS server_version,
  current_setting('server_version_num')::int AS version_num,
  ARRAY(
    SELECT name
    FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit']) AS s (name)
    WHERE current_setting(name) = 'off'
  ) AS off,
  pg_is_in_recovery() AS is_replica;
