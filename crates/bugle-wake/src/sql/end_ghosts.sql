-- Ends other sessions of this very node: those with one of its names $1. Waits a second for each to be gone: a handover that is rung while one
-- still holds the bell makes nobody a sentinel.
SELECT pg_terminate_backend(pid, 1000)
FROM pg_stat_activity
WHERE application_name = ANY ($1) AND pid <> pg_backend_pid() AND datname = current_database() AND usename = current_user;
