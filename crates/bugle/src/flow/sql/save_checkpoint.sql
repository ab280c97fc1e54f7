-- Keeps the checkpoint $5 and the progress $6 of a step (run $1, number $2, element $3, epoch $4); what is NULL stays as it is. False: the step is not this one's any more.
SELECT bugle.save_checkpoint($1, $2, $3, $4, $5, $6);
