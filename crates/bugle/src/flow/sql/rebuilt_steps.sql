-- What whoever works out run $1 from its log needs to know of the steps of its definition, beside what people see (defined_steps).
SELECT d.no, d.goes_on, d.seen_to
FROM bugle.run r
JOIN bugle.definition_step d ON d.definition = r.definition
WHERE r.id = $1
ORDER BY d.no;
