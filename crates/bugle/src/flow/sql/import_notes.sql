-- What the log of run $1 does not say of its steps. One that was given back is under no lease: nobody's worker.
UPDATE bugle.step s
SET token = CASE WHEN s.state <> 'ready' OR s.worker IS NOT NULL THEN (n->>'token')::bigint END, checkpoint = n->'checkpoint', progress = n->'progress'
FROM jsonb_array_elements($2::jsonb) AS n
WHERE s.run = $1 AND s.no = (n->>'no')::smallint AND s.idx = (n->>'idx')::int;
