-- Ends the rows $1.
DELETE FROM bench.floor
WHERE id = ANY ($1);
