-- One look for all sights: queues $1, groups $2 (ascending), what they have seen $3, partitions to try $4, how many asks each $5; and the asks:
-- partition $6, most messages $7, most partitions $8, token $9, lease $10, acked at once $11.
SELECT kind, sight, ask, part, again_us, partition, tries, until, seq, n, at, id, trace, key, sub, payload, seen
FROM bugle.look_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);
