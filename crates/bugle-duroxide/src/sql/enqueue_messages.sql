-- Messages for instances $1 of kinds $2, due after $4.
SELECT bugle.enqueue_messages($1, $2, $3, $4);
