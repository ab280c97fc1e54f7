-- Puts dead letters of queue $1 back, of group $2, partition $3, with key $4 unless those are NULL, at most $5. How many.
SELECT bugle.redrive_dead($1, $2, $3, $4, $5);
