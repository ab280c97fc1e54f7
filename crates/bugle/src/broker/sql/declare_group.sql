-- The id of group $2 of queue $1, made if it is not there, subscribed as $3 from $4. NULL: there is no such queue.
SELECT bugle.declare_group($1, $2, $3, $4);
