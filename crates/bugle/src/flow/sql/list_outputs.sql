-- What the steps of run $1 brought about, each time that they ran; elements of maps not.
SELECT v.no, v.epoch, v.value AS output
FROM bugle.flow_value v
WHERE v.run = $1 AND v.no > 0 AND v.idx = 0;
