-- Ends other sessions of this very node: those with one of its names $1.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE application_name = ANY ($1) AND pid <> pg_backend_pid() AND datname = current_database() AND usename = current_user;
