-- The steps of the definition by which run $1 goes, in their order.
SELECT d.no, d.name, d.kind, d.attempts, ARRAY(SELECT e.from_no FROM bugle.definition_edge e WHERE e.definition = d.definition AND e.to_no = d.no) AS parents
FROM bugle.run r
JOIN bugle.definition_step d ON d.definition = r.definition
WHERE r.id = $1
ORDER BY d.no;
