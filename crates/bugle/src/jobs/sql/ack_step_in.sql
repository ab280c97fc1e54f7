-- Ends one step, whose job is in queue $1, inside the caller's transaction, with output $6. An error: its job is no longer held, and the transaction is over.
SELECT bugle.ack_step_in($1, $2, $3, $4, $5, $6);
