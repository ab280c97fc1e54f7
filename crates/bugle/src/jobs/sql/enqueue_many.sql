-- Enqueues many jobs of one kind. Returns their ids in the order of the payloads.
SELECT bugle.enqueue_many(queue => $1, kind => $2, payloads => $3, due_at => $4, delay => $5, priority => $6,
  max_attempts => $7, namespace => $8);
