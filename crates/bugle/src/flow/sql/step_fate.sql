-- What the step (run $1, number $2, element $3) is to whoever claimed it in epoch $4 under token $5.
SELECT fate, step, state, why, message, worker, due_at
FROM bugle.step_fate($1, $2, $3, $4, $5);
