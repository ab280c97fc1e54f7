-- Ends the rows $1.
DELETE FROM bugle.floor
WHERE id = ANY ($1);
