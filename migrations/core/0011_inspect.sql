-- What people see of queues and jobs. No part of the hot path reads these.

-- Every job that Bugle still knows, in one shape.
-- A row of job is leased when its lane's cursor has passed it.
CREATE VIEW bugle.job_view AS
SELECT j.id, j.queue,
  CASE WHEN bugle.is_passed(c.cur, j.lane, j.x, j.id) THEN 'leased' ELSE 'ready' END AS state,
  j.lane AS priority, j.attempt, j.max_attempts, j.enqueued_at, j.due_at, NULL::timestamptz AS finished_at, j.kind, j.key, j.extra, j.payload, j.x,
  NULL::text AS ended_by, NULL::jsonb AS result
FROM bugle.job j
JOIN (SELECT n.queue, ROW(n.*)::bugle.cursor AS cur FROM bugle.newest_cursor n) c ON c.queue = j.queue
UNION ALL
SELECT d.id, d.queue, 'scheduled', d.lane, d.attempt, d.max_attempts, d.enqueued_at, d.due_at, NULL, d.kind, d.key, d.extra, d.payload, NULL, NULL, NULL
FROM bugle.due d
UNION ALL
SELECT d.id, d.queue, 'dead', d.lane, d.attempt, d.max_attempts, d.enqueued_at, NULL, d.died_at, d.kind, d.key, d.extra, d.payload, NULL, NULL, NULL
FROM bugle.dead d
UNION ALL
SELECT h.id, h.queue, h.state, h.lane, h.attempt, h.max_attempts, h.enqueued_at, NULL, h.finished_at, h.kind, h.key, h.extra, h.payload, NULL, h.worker, h.result
FROM bugle.history h;

-- Is this row one of the lease's?
CREATE FUNCTION bugle.covers(l bugle.lease, p_lane smallint, p_x bigint, p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_x <> ALL (l.skip) AND EXISTS (
  SELECT FROM unnest(l.lane, l.lo_x, l.lo_id, l.hi_x, l.hi_id) AS r (lane, lo_x, lo_id, hi_x, hi_id)
  WHERE r.lane = p_lane AND (p_x, p_id) > (r.lo_x, r.lo_id) AND (p_x, p_id) <= (r.hi_x, r.hi_id));

-- Since when the job has been due that is next in line behind the cursor c: how far the queue lags. NULL: none is ready. Reads one row a lane.
CREATE FUNCTION bugle.oldest_ready(c bugle.cursor) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  oldest timestamptz;
BEGIN
  SELECT min(f.due_at) INTO oldest
  FROM (
    SELECT next.due_at
    FROM generate_series(0, 3) AS l (lane)
    CROSS JOIN LATERAL (
      SELECT j.due_at FROM bugle.job j
      WHERE j.queue = c.queue AND j.lane = l.lane AND (j.x, j.id) > (c.px[l.lane + 1], c.pid[l.lane + 1])
      ORDER BY j.x, j.id LIMIT 1
    ) next
    UNION ALL
    SELECT late.due_at
    FROM unnest(c.pend) AS u
    CROSS JOIN LATERAL (
      SELECT j.due_at FROM bugle.job j
      WHERE j.queue = c.queue AND j.lane = u.lane AND j.x = u.x AND j.id > u.id
      ORDER BY j.id LIMIT 1
    ) late
  ) f;
  RETURN oldest;
END $$;

-- Who holds jobs of a queue, and how many are left of them; of the 10,000 leases that end first.
CREATE FUNCTION bugle.holders(p_queue int)
RETURNS TABLE (worker text, leases bigint, jobs bigint, since timestamptz, until timestamptz, alive boolean) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  this_moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  SELECT l.worker, count(*), sum(j.n)::bigint, min(l.claimed_at), min(l.until), bool_or(l.until > this_moment)
  FROM (
    SELECT * FROM bugle.lease e
    WHERE e.queue = p_queue
    ORDER BY e.until LIMIT 10000
  ) l
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM bugle.jobs_of(ROW(l.*)::bugle.lease)
  ) j
  GROUP BY l.worker
  ORDER BY l.worker;
END $$;

-- How many jobs go before the ready one (p_lane, p_x, p_id), counted up to p_most.
CREATE FUNCTION bugle.ahead_of(p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_most bigint) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  c bugle.cursor;
  ahead bigint;
BEGIN
  SELECT * INTO c FROM bugle.cursor k WHERE k.queue = p_queue ORDER BY k.gen DESC LIMIT 1;
  IF (p_x, p_id) <= (c.px[p_lane + 1], c.pid[p_lane + 1]) THEN
    RETURN 0;   -- its transaction was late: the next look begins with it
  END IF;
  SELECT count(*) INTO ahead
  FROM (
    SELECT
    FROM generate_series(0, p_lane) AS l (lane)
    CROSS JOIN LATERAL (
      SELECT FROM bugle.job j
      WHERE j.queue = p_queue AND j.lane = l.lane AND (j.x, j.id) > (c.px[l.lane + 1], c.pid[l.lane + 1])
        AND (j.x, j.id) < (CASE WHEN l.lane = p_lane THEN p_x ELSE 9223372036854775807 END, p_id)
      ORDER BY j.x, j.id LIMIT p_most
    ) before
    LIMIT p_most
  ) s;
  RETURN ahead;
END $$;
