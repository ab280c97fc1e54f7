-- Deletes group $2 of queue $1. False: there is none.
SELECT bugle.delete_group($1, $2);
