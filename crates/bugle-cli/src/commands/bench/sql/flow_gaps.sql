-- Milliseconds from the last end among a step's parents to its beginning, for all steps of runs $1 that have parents.
SELECT (extract(epoch FROM begun.at - max(ended.at)) * 1000)::float8
FROM bugle.run r
JOIN bugle.definition_edge d ON d.definition = r.definition
JOIN bugle.flow_event begun ON begun.run = r.id AND begun.no = d.to_no AND begun.to_state = 'running'
JOIN bugle.flow_event ended ON ended.run = r.id AND ended.no = d.from_no AND ended.to_state = 'succeeded'
WHERE r.id = ANY ($1)
GROUP BY r.id, d.to_no, begun.at;
