-- Sends the signal $1 with payload $2 in namespace $3, for actor $4.
SELECT bugle.send_signal($1, $2, $3, $4);
