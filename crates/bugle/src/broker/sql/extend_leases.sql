-- Extends the leases $2 of the namespace with number $1 by $3. A row for each, in that order.
SELECT outcome, until FROM bugle.extend_leases($1, $2, $3) ORDER BY o;
