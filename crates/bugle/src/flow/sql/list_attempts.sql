-- The attempts of run $1 that failed, in their order, at most $2.
SELECT d.name AS step, e.idx AS element, e.at AS failed_at, e.attempt, e.actor AS worker, e.why AS code, e.message
FROM bugle.run r
JOIN bugle.flow_event e ON e.run = r.id
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = e.no
WHERE r.id = $1 AND (e.filed_at >= r.created_at OR e.filed_at = '-infinity') AND e.cause = 'fail'
ORDER BY e.at, e.seq
LIMIT $2;
