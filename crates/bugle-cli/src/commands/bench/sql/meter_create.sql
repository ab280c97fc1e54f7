-- Fails where the library is not loaded or the role may not make the extension.
CREATE EXTENSION pg_stat_statements;
SELECT calls, toplevel FROM pg_stat_statements LIMIT 0;
