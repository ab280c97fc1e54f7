-- Work $1 with tokens $2 is done; the instances $3 are told $4 (NULL: nothing). Fails with BGL01, and nothing is done, when a lease was lost.
SELECT bugle.ack_work($1, $2::text[]::uuid[], $3, $4);
