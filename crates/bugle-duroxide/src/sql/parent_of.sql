-- Which instance has started instance $1. No row: there is no such instance.
SELECT parent
FROM bugle.instance
WHERE id = $1 AND name IS NOT NULL;
