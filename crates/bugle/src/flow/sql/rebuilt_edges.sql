-- The edges of the definition by which run $1 goes.
SELECT e.from_no, e.to_no, e.on_state
FROM bugle.run r
JOIN bugle.definition_edge e ON e.definition = r.definition
WHERE r.id = $1
ORDER BY e.from_no, e.to_no;
