-- Enqueues plain jobs of kind $5 with the payloads $6, lane $3 and $4 attempts into queue $2 of the namespace with number $1, named $7: what
-- bugle.enqueue_many does, in one statement without PL/pgSQL. Returns their ids in the order of the payloads. Everything was checked.
-- A queue that is not there yet, and no jobs at all, are bugle.enqueue_many's business.
WITH made AS MATERIALIZED (
  SELECT q.id AS queue, ARRAY(SELECT nextval('bugle.job_id') FROM generate_series(1, cardinality($6::jsonb[]))) AS ids
  FROM bugle.queue q
  WHERE q.namespace = $1 AND q.name = $2::text AND q.holds = 'jobs' AND cardinality($6::jsonb[]) > 0
), written AS (
  INSERT INTO bugle.job (queue, lane, id, max_attempts, kind, payload)
  SELECT m.queue, $3::int, u.id, $4::int, $5::text, u.payload
  FROM made m
  CROSS JOIN LATERAL unnest(m.ids, $6::jsonb[]) AS u (id, payload)
), counted AS (
  INSERT INTO bugle.tally (queue, move, n)
  SELECT queue, 1, cardinality(ids) FROM made
  RETURNING bugle.check_bell(queue)
)
SELECT coalesce((SELECT ids FROM made),
  bugle.enqueue_many(queue => $2, kind => $5, payloads => $6, priority => $3, max_attempts => $4, namespace => $7));
