-- Extends the leases $1 of worker $2. A token not returned: that lease was lost.
SELECT token, until
FROM bugle.renew($1, $2);
