-- Removes sessions that have ended and that no work waits for.
SELECT bugle.sweep_sessions();
