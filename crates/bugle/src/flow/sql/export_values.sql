-- The input of run $1 and the outputs of its steps, as an export has them.
SELECT jsonb_build_object('no', v.no, 'idx', v.idx, 'epoch', v.epoch, 'value', v.value)::text
FROM bugle.flow_value v
WHERE v.run = $1
ORDER BY v.no, v.idx, v.epoch;
