-- Which server process answers?
SELECT pg_backend_pid();
