-- The log: every message of every partition, in its order.
SELECT p.name AS partition, m.seq, m.n, m.payload
FROM bugle.message m
JOIN bugle.partition p ON p.id = m.part
ORDER BY p.name, m.seq
