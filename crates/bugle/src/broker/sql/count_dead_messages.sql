-- How many dead letters there are in the namespace with number $1, in queue $2 and for group $3 unless those are NULL.
SELECT count(*) FROM bugle.dead_message d JOIN bugle.queue q ON q.id = d.queue
WHERE q.namespace = $1 AND ($2::text IS NULL OR q.name = $2) AND ($3::text IS NULL OR d.group_name = $3);
