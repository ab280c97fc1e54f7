-- Commits and rollbacks of this database so far, and the clients connected to it besides this one.
SELECT d.xact_commit + d.xact_rollback AS transactions,
  (SELECT count(*)
   FROM pg_stat_activity a
   WHERE a.datname = d.datname
     AND a.backend_type = 'client backend'
     AND a.pid <> pg_backend_pid()) AS connections
FROM pg_stat_database d
WHERE d.datname = current_database();
