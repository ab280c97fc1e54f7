-- The name of the queue of partition $2, in the namespace with number $1. No row: there is no such partition.
SELECT q.name FROM bugle.partition p JOIN bugle.queue q ON q.id = p.queue WHERE p.id = $2 AND q.namespace = $1;
