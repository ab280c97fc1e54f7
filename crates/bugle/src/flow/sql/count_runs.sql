-- How many runs of namespace $1, of definition $2 unless that is NULL, are in each state, of each version counted up to $3.
SELECT s.state, coalesce(sum(bugle.count_runs(d.id, ARRAY[s.state], $3)), 0)::bigint AS runs
FROM unnest('{queued,running,succeeded,failed,cancelled}'::text[]) WITH ORDINALITY AS s (state, place)
LEFT JOIN bugle.definitions($1, $2) d ON true
GROUP BY s.state, s.place
ORDER BY s.place;
