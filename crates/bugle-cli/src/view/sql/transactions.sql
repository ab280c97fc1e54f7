-- Transactions ended in this database so far.
SELECT xact_commit + xact_rollback
FROM pg_stat_database
WHERE datname = current_database();
