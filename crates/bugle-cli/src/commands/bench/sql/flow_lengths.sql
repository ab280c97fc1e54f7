-- Milliseconds from the start to the end of each of runs $1.
SELECT (extract(epoch FROM r.ended_at - r.created_at) * 1000)::float8
FROM bugle.run r
WHERE r.id = ANY ($1) AND r.state = 'succeeded';
