-- Statements run in this database so far.
SELECT coalesce(sum(s.calls), 0)::bigint
FROM pg_stat_statements s
JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database();
