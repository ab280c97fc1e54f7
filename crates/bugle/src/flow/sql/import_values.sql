-- Values of run $1.
INSERT INTO bugle.flow_value (run, no, idx, epoch, value)
SELECT $1, (v->>'no')::smallint, (v->>'idx')::int, (v->>'epoch')::int, v->'value' FROM jsonb_array_elements($2::jsonb) AS v;
