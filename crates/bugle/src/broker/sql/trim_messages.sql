-- Keeps the small tables of messages small. How many rows were removed.
SELECT bugle.trim_messages(coalesce($1, now()));
