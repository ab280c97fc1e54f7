-- Tries to become the migrator of this schema. Tried, never waited for: a session that waits holds a snapshot, and
-- CREATE INDEX CONCURRENTLY waits for snapshots.
SELECT pg_try_advisory_lock(hashtextextended('bugle.migrate', 0));
