-- Keeps the checkpoint $6 and the progress $7 of a step (run $1, number $2, element $3, epoch $4, claimed under token $5); what is NULL stays as it is. False: the step is not this one's any more.
SELECT bugle.save_checkpoint($1, $2, $3, $4, $5, $6, $7);
