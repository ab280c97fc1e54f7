-- Who holds jobs of queue number $1.
SELECT worker, leases, jobs, since, until, alive
FROM bugle.holders($1);
