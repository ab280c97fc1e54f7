-- Takes back the jobs of ended leases of queue $1. Returns how many.
SELECT bugle.sweep($1);
