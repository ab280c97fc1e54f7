-- All or nothing in the namespace with number $1, while the leases $2 are held: pushes $3 to $9 as push_messages does, then settles $10 to $16 as
-- settle_messages does. Fails with BGL05 when something is not accepted.
SELECT part, seq, id, outcome, freed, queue_no, queue, partition
FROM bugle.transact($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);
