-- The tables of schema $1 with many dead rows: more than $2, and more than twice the live ones.
SELECT relname::text AS name, n_live_tup AS live, n_dead_tup AS dead,
  greatest(last_vacuum, last_autovacuum) AS vacuumed_at
FROM pg_stat_user_tables
WHERE schemaname = $1
  AND n_dead_tup > $2
  AND n_dead_tup > 2 * n_live_tup
ORDER BY n_dead_tup DESC;
