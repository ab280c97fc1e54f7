-- Deletes queue $1. False: it was not there.
SELECT bugle.delete_message_queue($1);
