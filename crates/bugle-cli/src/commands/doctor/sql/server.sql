-- What the server is and how it is set.
SELECT current_setting('server_version') AS version,
  current_setting('server_version_num')::int AS version_num,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit,
  pg_is_in_recovery() AS is_replica;
