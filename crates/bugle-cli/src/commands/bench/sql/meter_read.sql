-- Statements of database $1 so far, and those among them that are looks: by function, or in one statement.
SELECT coalesce(sum(s.calls), 0)::bigint AS statements,
  coalesce(sum(s.calls) FILTER (WHERE s.query LIKE '%bugle.look(%' OR s.query LIKE '%INSERT INTO bugle.cursor%'), 0)::bigint AS looks
FROM pg_stat_statements s
JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = $1
  AND s.toplevel;
