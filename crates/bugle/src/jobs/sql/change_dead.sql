-- Makes those of the next $7 dead jobs of namespace $1 after id $6 that match ready ($8 redrive), or deletes them (purge).
SELECT read, changed, last
FROM bugle.change_dead($8, $1, $2, $3, $4, $5, $6, $7);
