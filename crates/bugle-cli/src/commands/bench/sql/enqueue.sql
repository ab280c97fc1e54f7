-- Enqueues a job on queue $2 with the payload $1.
SELECT bugle.enqueue(queue => $2, kind => 'bench', payload => $1);
