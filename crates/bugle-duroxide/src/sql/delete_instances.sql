-- Removes the instances $1; running ones only with $2. Fails with BGL02 when it may not.
SELECT instances, executions, events, messages
FROM bugle.delete_instances($1, $2);
