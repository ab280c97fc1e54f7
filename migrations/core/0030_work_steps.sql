-- Steps in the hands of workers that are not Rust: claimed one by one, and ended by whoever shows the receipt. The same functions end them (0025);
-- what is more here is the answer. Such a worker holds nothing but its receipt, so it is told whether the step was still its, and if not, whose.

-- What a step is to whoever claimed it under p_token in epoch p_epoch:
--   held: it runs under that token
--   ended: it succeeded, failed, was put off or waits for its next attempt, and it was this token that ran it
--   taken: another token runs it, or has run it since
--   changed: somebody cancelled, restarted, retried, resolved or skipped it, or its deadline came; state and why say what it is now
--   gone: there is no such step
CREATE FUNCTION bugle.step_fate(p_run bigint, p_no smallint, p_idx int, p_epoch int, p_token bigint)
RETURNS TABLE (fate text, step text, state text, why text, message text, worker text, due_at timestamptz) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT CASE
      WHEN s.epoch <> p_epoch THEN 'changed'
      WHEN s.token IS DISTINCT FROM p_token THEN 'taken'
      WHEN s.state = 'running' THEN 'held'
      ELSE 'ended'
    END, d.name::text, s.state, s.why, s.message, s.worker, s.due_at
  FROM bugle.step s
  JOIN bugle.run r ON r.id = s.run
  JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
  WHERE s.run = p_run AND s.no = p_no AND s.idx = p_idx;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'gone', NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::timestamptz;
  END IF;
END $$;

-- Gives steps back that were begun: as bugle.release for jobs. They are ready again, for anybody, and the attempt is not counted.
INSERT INTO bugle.step_move (from_state, to_state, cause) VALUES ('running', 'ready', 'release');
CREATE FUNCTION bugle.release_steps(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  moment timestamptz := clock_timestamp();
  held record;
  given bigint[];
BEGIN
  SELECT array_agg(j.id) AS id, array_agg(j.payload) AS step, array_agg(u.token) AS token,
    array_agg((SELECT l.worker FROM bugle.lease l WHERE l.token = u.token)) AS worker
  INTO held
  FROM unnest(p_lane, p_x, p_id, p_token) AS u (lane, x, id, token)
  CROSS JOIN LATERAL (SELECT h.id, h.payload FROM bugle.job h WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id OFFSET 0) j;
  given := ARRAY(SELECT bugle.release(p_queue, p_lane, p_x, p_id, p_token, p_closed));
  WITH back AS (
    SELECT (u.s->>0)::bigint AS run, (u.s->>1)::smallint AS no, (u.s->>2)::int AS idx, (u.s->>3)::int AS epoch, u.token, u.worker
    FROM unnest(held.id, held.step, held.token, held.worker) AS u (id, s, token, worker) WHERE u.id = ANY (given) ORDER BY 1, 2, 3
  ), ready AS (
    UPDATE bugle.step s SET state = 'ready', attempt = greatest(s.attempt - 1, 0), since = moment, worker = NULL, token = NULL
    FROM back b
    WHERE s.run = b.run AND s.no = b.no AND s.idx = b.idx AND s.epoch = b.epoch AND s.token = b.token AND s.state = 'running'
    RETURNING s.run, s.no, s.idx, s.epoch, s.attempt, b.worker
  )
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor)
  SELECT moment, r.run, r.no, r.idx, r.epoch, 'release', 'running', 'ready', r.attempt, r.worker FROM ready r;
  RETURN QUERY SELECT unnest(given);
END $$;

-- Puts steps off that were begun, each by its time: as bugle.snooze for jobs. They wait, and the attempt is not counted. One whose job is put off because it
-- could not even be begun stays what it is.
INSERT INTO bugle.step_move (from_state, to_state, cause) VALUES ('running', 'waiting', 'snooze');
CREATE FUNCTION bugle.snooze_steps(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[], p_delay interval[]
) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  WITH held AS (
    SELECT (t.job).*, t.worker, p_token[t.n] AS token, moment + p_delay[t.n] AS until FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t
  ), again AS (
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT h.queue, h.lane, h.attempt, h.until, h.id, h.enqueued_at, h.max_attempts, h.kind, h.key, h.extra, h.payload FROM held h
  ), carried AS (
    SELECT (h.payload->>0)::bigint AS run, (h.payload->>1)::smallint AS no, (h.payload->>2)::int AS idx, (h.payload->>3)::int AS epoch, h.attempt, h.worker, h.token, h.until
    FROM held h ORDER BY 1, 2, 3
  ), moved AS (
    UPDATE bugle.step s SET state = 'waiting', why = 'snoozed', due_at = c.until, attempt = c.attempt, since = moment
    FROM carried c
    WHERE s.run = c.run AND s.no = c.no AND s.idx = c.idx AND s.epoch = c.epoch AND s.token = c.token AND s.state = 'running'
    RETURNING s.run, s.no, s.idx, s.epoch, s.attempt, s.due_at, c.worker
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, due_at)
    SELECT moment, m.run, m.no, m.idx, m.epoch, 'snooze', 'running', 'waiting', m.attempt, m.worker, 'snoozed', m.due_at FROM moved m
  ), closed AS (
    DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed)
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, 15, count(*) FROM held HAVING count(*) > 0
  )
  SELECT h.id FROM held h;
  IF FOUND THEN   -- sleepers must learn of the moment
    PERFORM bugle.check_bell(p_queue);
  END IF;
END $$;

-- Does p_verdict (ack, fail, snooze or release) with one step, and tells what it is afterwards. was_held: its job was the caller's until now.
-- p_in: of a failure when to try again (NULL: never), of a snooze when to go on.
CREATE FUNCTION bugle.settle_step(
  p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_token bigint, p_closed bigint[], p_run bigint, p_no smallint, p_idx int, p_epoch int,
  p_verdict text, p_result jsonb, p_in interval, p_code text, p_message text
) RETURNS TABLE (was_held boolean, fate text, step text, state text, why text, message text, worker text, due_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
  held boolean := false;
BEGIN
  -- A token of another queue proves nothing here.
  IF EXISTS (SELECT FROM bugle.lease l WHERE l.token = p_token AND l.queue = p_queue) THEN
    CASE p_verdict
      WHEN 'ack' THEN
        PERFORM bugle.ack_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], p_closed, ARRAY[p_result]);
      WHEN 'fail' THEN
        PERFORM bugle.fail_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], p_closed, ARRAY[p_in], ARRAY[p_code], ARRAY[p_message]);
      WHEN 'snooze' THEN
        PERFORM bugle.snooze_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], p_closed, ARRAY[p_in]);
      WHEN 'release' THEN
        PERFORM bugle.release_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], p_closed);
    END CASE;
    held := FOUND;
  END IF;
  RETURN QUERY SELECT held, f.* FROM bugle.step_fate(p_run, p_no, p_idx, p_epoch, p_token) f;
END $$;

-- Extends the lease of one step, and tells what the step is. until: when the lease ends now; NULL: it is lost. A step that has run for longer
-- than its timeout is not kept alive: is_late.
CREATE FUNCTION bugle.renew_step(p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_token bigint, p_run bigint, p_no smallint, p_idx int, p_epoch int)
RETURNS TABLE (until timestamptz, is_late boolean, fate text, step text, state text, why text, message text, worker text, due_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
  late boolean := coalesce((
    SELECT clock_timestamp() > s.since + d.timeout
    FROM bugle.step s JOIN bugle.run r ON r.id = s.run JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
    WHERE s.run = p_run AND s.no = p_no AND s.idx = p_idx AND s.epoch = p_epoch AND s.token = p_token AND s.state = 'running'), false);
  ends timestamptz;
BEGIN
  IF NOT late AND EXISTS (SELECT FROM bugle.held_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token])) THEN
    SELECT e.until INTO ends
    FROM bugle.lease l CROSS JOIN LATERAL bugle.renew(ARRAY[l.token], l.worker) e
    WHERE l.token = p_token AND l.queue = p_queue;
  END IF;
  RETURN QUERY SELECT ends, late, f.* FROM bugle.step_fate(p_run, p_no, p_idx, p_epoch, p_token) f;
END $$;
