-- Does the verdict $11 (result $12, time $13, code $14, message $15) with the step (run $7, number $8, element $9, epoch $10) whose job (queue $1, lane $2, row $3 $4) was claimed under token $5, and closes the leases $6. What the step is afterwards.
SELECT was_held, fate, step, state, why, message, worker, due_at
FROM bugle.settle_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);
