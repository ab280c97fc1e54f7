-- Pushes messages into queues $1, partitions $2, with ids $3, keys $4, traces $5, subjects $6, payloads $7. A row for each, in that order:
-- part NULL = its queue is gone; full_at = its queue is full with so many; seq NULL otherwise = a duplicate, id is that of the first.
SELECT part, seq, id, full_at FROM bugle.push_messages($1, $2, $3, $4, $5, $6, $7) ORDER BY o;
