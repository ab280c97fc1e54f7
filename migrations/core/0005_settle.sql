-- Ending what was claimed. The row's key is the fence: a redelivered job has another x, so a late call finds no row. The lease must
-- exist as well: after a crash of the server the same row may have been handed out twice, and only the newer lease is left.
-- By ctid, with the same pinned plans as in 0004.
-- An id that is not returned: that job was lost or cancelled, a normal answer. p_closed: leases of which nothing is left.
-- Somebody's open transaction may hold a row (complete_in, cancel). Nobody waits long for it: the other jobs of the call would wait as well.
-- After lock_timeout the call is refused and nothing has happened; locked() tells which jobs to leave out.

-- p_result: what the handlers returned; NULL: nothing, for any of them.
CREATE FUNCTION bugle.ack(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[], p_result jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  IF cardinality(p_id) = 0 AND cardinality(p_closed) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH gone AS (
    DELETE FROM bugle.job j USING (
      SELECT k.place, l.worker, u.result
      FROM unnest(p_lane, p_x, p_id, p_token, p_result) AS u (lane, x, id, token, result)
      CROSS JOIN LATERAL (
        SELECT h.ctid AS place FROM bugle.job h
        WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id OFFSET 0
      ) k
      CROSS JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l
    ) held
    WHERE j.ctid = held.place
    RETURNING j.*, held.worker, held.result
  ), kept AS (
    INSERT INTO bugle.history (queue, lane, attempt, id, enqueued_at, max_attempts, state, kind, key, extra, payload, worker, result)
    SELECT g.queue, g.lane, g.attempt + 1, g.id, g.enqueued_at, g.max_attempts, 'done', g.kind, g.key, g.extra, g.payload, g.worker, g.result FROM gone g
    WHERE (SELECT q.history FROM bugle.queue q WHERE q.id = p_queue)
  ), closed AS (
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed)
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, 4, count(*) FROM gone HAVING count(*) > 0
  ), told AS (
    INSERT INTO bugle.ended (queue, state, ids) SELECT p_queue, 'done', array_agg(g.id) FROM gone g HAVING count(*) > 0
  )
  SELECT g.id FROM gone g;
END $$;

-- Ends whole claims that are done, without results: p_n, how many jobs of each lease are left, by what its worker knows. One range instead
-- of a key for every job: less than two thirds of what ack costs. Returns how many jobs ended; the others were lost or cancelled.
CREATE FUNCTION bugle.ack_claims(p_queue int, p_token bigint[], p_n int[]) RETURNS int LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  ended int;
  too_many bigint;
BEGIN
  IF cardinality(p_token) = 0 THEN
    RETURN 0;
  END IF;
  WITH closed AS MATERIALIZED (   -- in the order in which renew locks them as well
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_token) AND l.queue + 0 = p_queue   -- by the token's index, not by the queue's
    RETURNING l, p_n[array_position(p_token, l.token)] AS n_left
  ), gone AS (
    DELETE FROM bugle.job j USING (
      SELECT p.place, (c.l).token, c.n_left, (c.l).worker
      FROM closed c
      CROSS JOIN LATERAL bugle.places_of(c.l) AS p (place)
    ) held
    WHERE j.ctid = held.place
    RETURNING j.*, held.token, held.n_left, held.worker
  ), kept AS (
    INSERT INTO bugle.history (queue, lane, attempt, id, enqueued_at, max_attempts, state, kind, key, extra, payload, worker)
    SELECT g.queue, g.lane, g.attempt + 1, g.id, g.enqueued_at, g.max_attempts, 'done', g.kind, g.key, g.extra, g.payload, g.worker FROM gone g
    WHERE (SELECT q.history FROM bugle.queue q WHERE q.id = p_queue)
  ), told AS (
    INSERT INTO bugle.ended (queue, state, ids) SELECT p_queue, 'done', array_agg(g.id) FROM gone g HAVING count(*) > 0
  )
  SELECT sum(t.n), min(t.token) FILTER (WHERE t.n > t.n_left) INTO ended, too_many
  FROM (SELECT g.token, g.n_left, count(*) AS n FROM gone g GROUP BY 1, 2) t;
  IF too_many IS NOT NULL THEN   -- what nobody has run must not be called done
    RAISE EXCEPTION 'lease % has more jobs than its worker knows of', too_many USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF ended > 0 THEN
    INSERT INTO bugle.tally (queue, move, n) VALUES (p_queue, 4, ended);
  END IF;
  RETURN coalesce(ended, 0);
END $$;

-- Ends one job inside the transaction of whoever did its work: both happen or neither. Refuses when the job is no longer held: the error
-- ends the transaction, so that work which somebody else does as well cannot be committed by carelessness.
CREATE FUNCTION bugle.ack_in(p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_token bigint, p_result jsonb DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bugle.ack(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], '{}', ARRAY[p_result]);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'job % is no longer held: its lease was lost, or it was cancelled or has ended', p_id
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Nothing of this transaction will be kept.';
  END IF;
END $$;

-- Which of these jobs are still held. Reads only: for a worker that heard that something was cancelled.
CREATE FUNCTION bugle.held(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT u.id
  FROM unnest(p_lane, p_x, p_id, p_token) AS u (lane, x, id, token)
  WHERE EXISTS (SELECT FROM bugle.job h WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id)
    AND EXISTS (SELECT FROM bugle.lease l WHERE l.token = u.token OFFSET 0);
END $$;

-- Which of these jobs somebody else's open transaction holds, so that nobody knows yet whether they have ended.
CREATE FUNCTION bugle.locked(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT u.id
  FROM unnest(p_lane, p_x, p_id) AS u (lane, x, id)
  WHERE EXISTS (SELECT FROM bugle.job h WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id)
    AND NOT EXISTS (SELECT FROM bugle.job h WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id FOR UPDATE SKIP LOCKED);
END $$;

-- What was held under a limit is held no longer: whoever was refused for it may claim now, in whichever of its queues.
CREATE FUNCTION bugle.ring_for_limit(p_queue int) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  PERFORM bugle.check_bell(o.id) FROM bugle.queue q JOIN bugle.queue o ON o.claim_limit = q.claim_limit WHERE q.id = p_queue;
END $$;

-- Takes those of these jobs that are still held out of the table, for the functions below to move them on: each with its place among the
-- arguments and who holds it. (ack does the same in its own statement, because it is the one that every job needs.)
CREATE FUNCTION bugle.take_held(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[])
RETURNS TABLE (n bigint, worker text, job bugle.job) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  DELETE FROM bugle.job j USING (
    SELECT u.n, k.place, l.worker
    FROM unnest(p_lane, p_x, p_id, p_token) WITH ORDINALITY AS u (lane, x, id, token, n)
    CROSS JOIN LATERAL (
      SELECT h.ctid AS place FROM bugle.job h
      WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id OFFSET 0
    ) k
    CROSS JOIN LATERAL (SELECT e.worker FROM bugle.lease e WHERE e.token = u.token OFFSET 0) l
  ) held
  WHERE j.ctid = held.place
  RETURNING held.n, held.worker, j;
  IF FOUND THEN
    PERFORM bugle.ring_for_limit(p_queue);
  END IF;
END $$;

-- p_retry_in: when to try again; NULL = never, dead at once. Dead as well when the attempts are used up.
CREATE FUNCTION bugle.fail(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[],
  p_retry_in interval[], p_code text[], p_message text[]
) RETURNS TABLE (id bigint, state text) LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  this_moment timestamptz := clock_timestamp();   -- once: the wait begins when the attempt failed, not a while before
BEGIN
  RETURN QUERY
  WITH gone AS (
    SELECT (t.job).*, t.worker, p_retry_in[t.n] AS retry_in, p_code[t.n] AS code, p_message[t.n] AS message,
      (p_retry_in[t.n] IS NULL OR (t.job).attempt + 1 >= (t.job).max_attempts) AS out_of_attempts
    FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t
  ), noted AS (
    INSERT INTO bugle.failure (failed_at, queue, id, attempt, worker, code, message)
    SELECT this_moment, g.queue, g.id, g.attempt + 1, g.worker, g.code, g.message FROM gone g
  ), buried AS (
    INSERT INTO bugle.dead (id, queue, lane, attempt, max_attempts, enqueued_at, kind, key, extra, payload, worker, code, message)
    SELECT g.id, g.queue, g.lane, g.attempt + 1, g.max_attempts, g.enqueued_at, g.kind, g.key, g.extra, g.payload, g.worker, g.code, g.message
    FROM gone g WHERE g.out_of_attempts
  ), again AS (
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT g.queue, g.lane, g.attempt + 1, this_moment + g.retry_in, g.id, g.enqueued_at, g.max_attempts, g.kind, g.key, g.extra, g.payload
    FROM gone g WHERE NOT g.out_of_attempts
  ), closed AS (
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed)
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n)
    SELECT p_queue, CASE WHEN g.out_of_attempts THEN 6 ELSE 5 END, count(*) FROM gone g GROUP BY g.out_of_attempts
  ), told AS (
    INSERT INTO bugle.ended (queue, state, ids) SELECT p_queue, 'dead', array_agg(g.id) FROM gone g WHERE g.out_of_attempts HAVING count(*) > 0
  )
  SELECT g.id, CASE WHEN g.out_of_attempts THEN 'dead' ELSE 'scheduled' END FROM gone g;
  IF FOUND THEN   -- sleepers must learn of the next attempt
    PERFORM bugle.check_bell(p_queue);
  END IF;
END $$;

-- Gives jobs back untouched: ready at once, the attempt not counted.
CREATE FUNCTION bugle.release(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  WITH gone AS (
    SELECT (t.job).* FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t
  ), again AS (
    INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload)
    SELECT g.queue, g.lane, g.attempt, g.id, g.enqueued_at, g.due_at, g.max_attempts, g.kind, g.key, g.extra, g.payload FROM gone g
  ), closed AS (
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed)
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, 7, count(*) FROM gone HAVING count(*) > 0
  )
  SELECT g.id FROM gone g;
  IF FOUND THEN
    PERFORM bugle.check_bell(p_queue);
  END IF;
END $$;

-- Puts jobs off, the attempt not counted: scheduled again, each after its p_delay.
CREATE FUNCTION bugle.snooze(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[], p_delay interval[]
) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  WITH gone AS (
    SELECT (t.job).*, p_delay[t.n] AS delay FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t
  ), again AS (
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT g.queue, g.lane, g.attempt, clock_timestamp() + g.delay, g.id, g.enqueued_at, g.max_attempts, g.kind, g.key, g.extra, g.payload FROM gone g
  ), closed AS (
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed)
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, 15, count(*) FROM gone HAVING count(*) > 0
  )
  SELECT g.id FROM gone g;
  IF FOUND THEN   -- sleepers must learn of the moment
    PERFORM bugle.check_bell(p_queue);
  END IF;
END $$;
