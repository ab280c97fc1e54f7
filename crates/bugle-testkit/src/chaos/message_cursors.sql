-- Up to where each group has done each partition.
SELECT g.name AS grp, p.name AS partition, coalesce(t.cur, g.start) AS cur
FROM bugle.consumer_group g
JOIN bugle.partition p ON p.queue = g.queue
LEFT JOIN LATERAL (SELECT c.cur FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
