-- Keeps the small tables small. Returns how many rows were removed.
SELECT bugle.trim();
