-- The number of the namespace named $1.
SELECT id FROM bugle.namespace WHERE name = $1;
