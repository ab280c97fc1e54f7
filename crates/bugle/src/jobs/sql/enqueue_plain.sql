-- Enqueues one plain job of kind $5 with payload $6, lane $3 and $4 attempts into queue $2 of the namespace with number $1, named $7: what
-- bugle.enqueue does, in one statement without PL/pgSQL. Everything was checked. A queue that is not there yet is bugle.enqueue's business.
WITH written AS (
  INSERT INTO bugle.job (queue, lane, max_attempts, kind, payload)
  SELECT q.id, $3::int, $4::int, $5::text, $6::jsonb FROM bugle.queue q WHERE q.namespace = $1 AND q.name = $2::text AND q.holds = 'jobs'
  RETURNING id, queue, bugle.check_bell(queue)
), counted AS (
  INSERT INTO bugle.tally (queue, move, n) SELECT queue, 1, 1 FROM written
)
SELECT coalesce((SELECT id FROM written),
  bugle.enqueue(queue => $2, kind => $5, payload => $6, priority => $3, max_attempts => $4, namespace => $7));
