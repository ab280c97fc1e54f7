-- Enqueues one job. Returns its id, or that of the job that has the key already.
SELECT bugle.enqueue(queue => $1, kind => $2, payload => $3, due_at => $4, delay => $5, priority => $6,
  key => $7, key_window => $8, max_attempts => $9, namespace => $10, extra => $11);
