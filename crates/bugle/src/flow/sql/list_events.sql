-- At most $6 events of run $1 in namespace $2 in the order in which they happened, up to $3 (NULL: all); those behind the one at $4 with number $5, if
-- one is given.
SELECT e.at, e.seq, e.no, e.idx, d.name AS step, e.epoch, e.cause, e.from_state, e.to_state, e.attempt, e.actor, e.why, e.message, e.due_at
FROM bugle.run r
JOIN bugle.namespace n ON n.id = r.namespace
JOIN bugle.flow_event e ON e.run = r.id
LEFT JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = e.no
WHERE r.id = $1 AND n.name = $2
  AND (e.filed_at >= r.created_at OR e.filed_at = '-infinity') AND e.at <= coalesce($3, 'infinity'::timestamptz)
  AND (e.at, e.seq) > (coalesce($4, '-infinity'::timestamptz), coalesce($5::bigint, 0))
ORDER BY e.at, e.seq
LIMIT $6;
