-- Ends jobs of queue $1 that are done, without results: the whole claims $2, of each of which $3 jobs are left, and those with the receipts
-- $4 to $7, after which nothing is left of the leases $8. Returns how many were still held.
SELECT bugle.ack_claims($1, $2, $3) + (SELECT count(*)::int FROM bugle.ack($1, $4, $5, $6, $7, $8));
