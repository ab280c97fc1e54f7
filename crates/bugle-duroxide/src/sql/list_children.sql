-- The instances that instance $1 has started.
SELECT id
FROM bugle.instance
WHERE parent = $1
ORDER BY created_at, id;
