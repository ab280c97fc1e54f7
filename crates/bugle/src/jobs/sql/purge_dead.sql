-- Deletes those of the next $7 dead jobs of namespace $1 after id $6 that match.
SELECT read, changed, last
FROM bugle.purge_dead($1, $2, $3, $4, $5, $6, $7);
