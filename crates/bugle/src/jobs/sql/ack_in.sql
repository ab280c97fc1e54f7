-- Ends one job of queue $1 inside the caller's transaction, with result $6. An error: it is no longer held, and the transaction is over.
SELECT bugle.ack_in($1, $2, $3, $4, $5, $6);
