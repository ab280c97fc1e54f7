-- Extends the lease of the step (run $6, number $7, element $8, epoch $9) whose job (queue $1, lane $2, row $3 $4) was claimed under token $5. What the step is, and until when it is held; NULL: it is lost.
SELECT until, is_late, fate, step, state, why, message, worker, due_at
FROM bugle.renew_step($1, $2, $3, $4, $5, $6, $7, $8, $9);
