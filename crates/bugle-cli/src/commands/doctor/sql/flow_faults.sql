-- What is wrong with runs of workflows, worked out from scratch: in all namespaces.
SELECT f.run, d.name AS step, f.fault
FROM bugle.audit_flow() f
JOIN bugle.run r ON r.id = f.run
LEFT JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = f.no
ORDER BY f.run, f.no, f.fault;
