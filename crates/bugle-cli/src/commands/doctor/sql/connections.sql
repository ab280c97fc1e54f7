-- How many connections there may be, how many are kept for superusers, how many are in use.
SELECT current_setting('max_connections')::bigint AS most,
  current_setting('superuser_reserved_connections')::bigint + coalesce(current_setting('reserved_connections', true), '0')::bigint AS kept_back,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used;
