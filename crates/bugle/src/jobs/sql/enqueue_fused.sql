-- Enqueues plain jobs of several callers into queue $2 of the namespace with number $1: of kinds $3, with payloads $4, in lanes $5, with $6
-- attempts. Their ids, in that order. Everything was checked. No row: the queue is not there yet, and nothing has happened.
WITH written AS (
  INSERT INTO bugle.job (queue, lane, max_attempts, kind, payload)
  SELECT q.id, u.lane, u.max_attempts, u.kind, u.payload
  FROM bugle.queue q
  CROSS JOIN unnest($3::text[], $4::jsonb[], $5::int[], $6::int[]) AS u (kind, payload, lane, max_attempts)
  WHERE q.namespace = $1 AND q.name = $2::text AND q.holds = 'jobs'
  RETURNING id, queue
), counted AS (
  INSERT INTO bugle.tally (queue, move, n)
  SELECT queue, 1, count(*) FROM written GROUP BY queue
  RETURNING bugle.check_bell(queue)
)
SELECT id FROM written;
