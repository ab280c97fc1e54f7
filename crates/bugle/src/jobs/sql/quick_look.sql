-- The look of a single ask that finds nothing or one job, as one that was woken does, and has nothing unusual to do: what bugle.look does
-- then, but in one small plan. After a sleep every part of a plan costs, for nothing of it is in the processor's caches.
-- Under token $1, of queue $2, for worker $3, leased for $4; $5 and $6: nothing is due and no lease ends before.
-- No row at all: it is a case for bugle.look, and nothing has happened.
-- The snapshot is older than the lock. Whoever decided something under the lock in between has left a new generation of the cursor: the
-- insert below does nothing then, and the rest depends on it.
WITH seen AS MATERIALIZED (
  SELECT c.gen, c.px, c.pid, c.pend, c.claimed, j.*, clock_timestamp() AS moment,
    ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) AS open_x,
    (SELECT d.due_at FROM bugle.due d WHERE d.queue = $2 AND d.due_at >= $5 ORDER BY d.due_at LIMIT 1) AS due,
    (SELECT e.until FROM bugle.lease e WHERE e.queue = $2 AND e.until >= $6 ORDER BY e.until LIMIT 1) AS expiry
  FROM (SELECT * FROM bugle.cursor WHERE queue = $2 ORDER BY gen DESC LIMIT 1) c
  LEFT JOIN LATERAL (
    SELECT k.*
    FROM generate_series(0, 3) AS l (lane)
    CROSS JOIN LATERAL (
      SELECT * FROM bugle.job k
      WHERE k.queue = $2 AND k.lane = l.lane AND (k.x, k.id) > (c.px[l.lane + 1], c.pid[l.lane + 1])
      ORDER BY k.x, k.id LIMIT 2
    ) k
    LIMIT 2
  ) j ON true
  WHERE NOT c.paused AND c.claim_limit IS NULL AND pg_snapshot_xmax(pg_current_snapshot())::text::bigint > greatest(c.px[1], c.px[2], c.px[3], c.px[4])
    -- Of the transactions that the cursor waits for none has left a job. LIMIT keeps the planner from reading the whole queue for a join.
    AND NOT EXISTS (
      SELECT FROM unnest(c.pend) AS p
      CROSS JOIN LATERAL (SELECT FROM bugle.job k WHERE k.queue = $2 AND k.lane = p.lane AND k.x = p.x AND k.id > p.id LIMIT 1) late)
    AND pg_try_advisory_xact_lock(bugle.claim_class(), $2)
), usual AS MATERIALIZED (
  SELECT * FROM seen
  WHERE (due <= moment) IS NOT TRUE AND (expiry <= moment) IS NOT TRUE AND (pg_column_size(payload) <= 262144) IS NOT FALSE
    AND NOT EXISTS (SELECT FROM seen OFFSET 1)
), passed AS (
  INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed)
  SELECT $2, gen + 1, px[:lane] || x || px[lane + 2:], pid[:lane] || id || pid[lane + 2:],
    CASE WHEN pend <> '{}' OR open_x <> '{}' THEN
      ARRAY(SELECT p FROM unnest(pend) AS p WHERE p.x = ANY (open_x))
        || ARRAY(SELECT ROW(lane, v, 0)::bugle.pending FROM unnest(open_x) AS v WHERE v > px[lane + 1] AND v < x)
    ELSE '{}' END, claimed + 1
  FROM usual
  WHERE id IS NOT NULL
  ON CONFLICT DO NOTHING
  RETURNING gen
), leased AS (
  INSERT INTO bugle.lease (token, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
  SELECT $1, $2, ARRAY[lane], ARRAY[px[lane + 1]], ARRAY[pid[lane + 1]], ARRAY[x], ARRAY[id], open_x, 1, $3, moment, $4, moment + $4
  FROM usual CROSS JOIN passed
)
SELECT (id IS NOT NULL)::int AS got, moment AS claimed_at, due AS next_due, s.expiry AS next_expiry,
  CASE WHEN s.soonest IS NOT NULL THEN greatest(ceil(extract(epoch FROM s.soonest - clock_timestamp()) * 1000000), 0)::bigint END AS again_us,
  lane, x, id, (attempt + 1)::smallint AS attempt, max_attempts, enqueued_at, due_at, kind, key, extra, payload, moment + $4 AS until
FROM usual
LEFT JOIN passed ON true
CROSS JOIN LATERAL (SELECT CASE WHEN id IS NULL THEN usual.expiry ELSE least(usual.expiry, moment + $4) END AS expiry) e
CROSS JOIN LATERAL (SELECT e.expiry, least(due, e.expiry) AS soonest) s
WHERE id IS NULL OR passed.gen IS NOT NULL;
