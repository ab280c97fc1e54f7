-- The tables of Bugle that have dead rows, and how many.
SELECT relname::text, n_dead_tup
FROM pg_stat_user_tables
WHERE schemaname = 'bugle'
  AND n_dead_tup > 0
ORDER BY relname;
