-- Takes a snapshot, by reading, and keeps it until the session ends.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM bugle.job;
