-- Leases up to $4 ready jobs of queue $2 to worker $3 under token $1.
SELECT got, next_due, next_expiry, claimed_at
FROM bugle.claim($1, $2, $3, $4, $5);
