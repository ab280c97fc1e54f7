-- Stops being the migrator of this schema.
SELECT pg_advisory_unlock(hashtextextended('bugle.migrate', 0));
