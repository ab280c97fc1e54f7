-- Visible messages of the namespace with number $1, the newest first: of queue $2, partition $3, pushed from $4 to $5, behind seq $6 unless those are
-- NULL; at most $7.
SELECT id, key, trace, sub, queue, part, partition, seq, n, at, groups, done_by, leased_by, dead_for
FROM bugle.list_messages($1, $2, $3, $4, $5, $6, $7);
