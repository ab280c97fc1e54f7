-- Ending steps: what ends their jobs (0005) ends them as well, and makes ready what follows.

-- Steps that have just ended, as the functions below hand them to what follows.
CREATE TYPE bugle.step_end AS (run bigint, no smallint, idx int, epoch int, state text);

-- What follows from steps that have ended: maps count their elements, and runs go on. Under the locks of their runs.
CREATE FUNCTION bugle.follow(p_ends bugle.step_end[], p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  whole record;
  m record;
  ends bugle.step_end[] := p_ends;
BEGIN
  FOR m IN
    UPDATE bugle.step s
    SET items_left = s.items_left - c.n, items_failed = s.items_failed + c.failed
    FROM (
      SELECT e.run, e.no, count(*)::int AS n, (count(*) FILTER (WHERE e.state = 'failed'))::int AS failed
      FROM unnest(p_ends) AS e WHERE e.idx > 0 GROUP BY e.run, e.no
    ) c
    WHERE s.run = c.run AND s.no = c.no AND s.idx = 0 AND s.state = 'waiting'
    RETURNING s.*, c.n
  LOOP
    PERFORM bugle.next_elements(m.run, m.no, m.epoch, m.items_ready, m.n, p_moment);
    IF m.items_left = 0 THEN
      ends := ends || bugle.end_map(m.run, m.no, m.epoch, m.items_failed, p_moment);
    END IF;
  END LOOP;
  SELECT array_agg(e.run) AS run, array_agg(e.no) AS no, array_agg(e.state) AS state INTO whole FROM unnest(ends) AS e WHERE e.idx = 0;
  IF whole.run IS NOT NULL THEN
    PERFORM bugle.go_on(whole.run, whole.no, whole.state, p_moment);
  END IF;
END $$;

-- Hands over as many elements of a map as have just ended, behind the last that was: those are left that at_once made wait.
CREATE FUNCTION bugle.next_elements(p_run bigint, p_no smallint, p_epoch int, p_last int, p_n int, p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  m record;
BEGIN
  WITH next AS (
    UPDATE bugle.step s SET state = 'ready', since = p_moment
    WHERE s.run = p_run AND s.no = p_no AND s.idx > p_last AND s.idx <= p_last + p_n AND s.epoch = p_epoch AND s.state = 'pending'
    RETURNING s.idx
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state) SELECT p_moment, p_run, p_no, n.idx, p_epoch, 'parents', 'pending', 'ready' FROM next n
  )
  SELECT array_agg(p_run) AS run, array_agg(p_no) AS no, array_agg(n.idx) AS idx, array_agg(p_epoch) AS epoch INTO m FROM next n;
  IF m.run IS NOT NULL THEN
    UPDATE bugle.step SET items_ready = p_last + cardinality(m.run) WHERE run = p_run AND no = p_no AND idx = 0;
    PERFORM bugle.carry(m.run, m.no, m.idx, m.epoch);
  END IF;
END $$;

-- Ends a map of which all elements have ended: failed if one did, unless the definition goes on.
CREATE FUNCTION bugle.end_map(p_run bigint, p_no smallint, p_epoch int, p_failed int, p_moment timestamptz) RETURNS bugle.step_end LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  goes_on boolean := (SELECT d.goes_on FROM bugle.run r JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = p_no WHERE r.id = p_run);
  as_state text := CASE WHEN p_failed > 0 AND NOT goes_on THEN 'failed' ELSE 'succeeded' END;
  fault text := CASE WHEN as_state = 'failed' THEN format('%s of its elements failed', p_failed) END;
BEGIN
  UPDATE bugle.step SET state = as_state, since = p_moment, why = CASE WHEN fault IS NOT NULL THEN 'elements' END, message = fault WHERE run = p_run AND no = p_no AND idx = 0;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, why, message)
  VALUES (p_moment, p_run, p_no, 0, p_epoch, 'items', 'waiting', as_state, CASE WHEN fault IS NOT NULL THEN 'elements' END, fault);
  RETURN ROW(p_run, p_no, 0, p_epoch, as_state)::bugle.step_end;
END $$;

-- The queues of these runs' steps into which this transaction has put work without ringing, because nobody sleeps for them, and those in which what
-- it ended makes room under a limit: a node that wants it looks by itself. Where somebody sleeps, the ring wakes all, and a look of one's own
-- would find nothing.
CREATE FUNCTION bugle.unrung(p_queue int, p_run bigint[]) RETURNS SETOF int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  own bigint := pg_current_xact_id()::text::bigint;
BEGIN
  RETURN QUERY
  SELECT q.queue
  FROM (
    SELECT d.queue
    FROM unnest(p_run) AS u (run)
    JOIN bugle.run r ON r.id = u.run
    JOIN bugle.definition_step d ON d.definition = r.definition
    UNION
    SELECT t.queue
    FROM unnest(p_run) AS u (run)
    JOIN bugle.run r ON r.id = u.run
    JOIN bugle.flow_routed t ON t.namespace = r.namespace
    UNION
    SELECT o.id FROM bugle.queue k JOIN bugle.queue o ON o.claim_limit = k.claim_limit WHERE k.id = p_queue
  ) q
  WHERE (EXISTS (
      SELECT FROM generate_series(0, 3) AS l (lane)
      CROSS JOIN LATERAL (SELECT FROM bugle.job k WHERE k.queue = q.queue AND k.lane = l.lane AND k.x = own LIMIT 1) made)
      OR (SELECT k.claim_limit FROM bugle.queue k WHERE k.id = q.queue) IS NOT NULL)
    AND pg_try_advisory_xact_lock_shared(bugle.bell_class(), bugle.bucket_of(q.queue));
END $$;

-- Ends steps that are done, with what they brought about: as bugle.ack for jobs. An id that is not returned: the job was lost. A job whose step is
-- none of its any more just goes. look: a queue that was not rung for.
CREATE FUNCTION bugle.ack_steps(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[], p_result jsonb[] DEFAULT NULL
) RETURNS TABLE (id bigint, look int) LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
  held record;
  ends bugle.step_end[];
BEGIN
  SELECT array_agg((t.job).id) AS id, array_agg((t.job).payload) AS step, array_agg((t.job).attempt) AS attempt, array_agg(t.worker) AS worker, array_agg(coalesce(p_result[t.n], 'null')) AS result
  INTO held FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t;
  DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed);
  IF held.id IS NULL THEN
    RETURN;
  END IF;
  INSERT INTO bugle.tally (queue, move, n) VALUES (p_queue, 4, cardinality(held.id));
  PERFORM bugle.lock_runs(ARRAY(SELECT (s->>0)::bigint FROM unnest(held.step) AS s));
  moment := clock_timestamp();
  WITH done AS (
    SELECT (u.s->>0)::bigint AS run, (u.s->>1)::smallint AS no, (u.s->>2)::int AS idx, (u.s->>3)::int AS epoch, u.attempt + 1 AS attempt, u.worker, u.result
    FROM unnest(held.step, held.attempt, held.worker, held.result) AS u (s, attempt, worker, result)
  ), judged AS (
    -- A decision for somebody who is no child of it is a mistake that no other attempt would mend.
    SELECT o.*, s.state AS was, CASE WHEN d.kind = 'decision' THEN bugle.wrong_choice(d, o.result) END AS fault
    FROM done o
    JOIN bugle.run r ON r.id = o.run
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = o.no
    JOIN bugle.step s ON s.run = o.run AND s.no = o.no AND s.idx = o.idx AND s.epoch = o.epoch AND s.state IN ('ready', 'running', 'waiting')
  ), ended AS (
    UPDATE bugle.step s
    SET state = CASE WHEN o.fault IS NULL THEN 'succeeded' ELSE 'failed' END, why = CASE WHEN o.fault IS NOT NULL THEN 'decision' END, message = o.fault,
      attempt = o.attempt, worker = o.worker, since = moment, due_at = NULL
    FROM judged o
    WHERE s.run = o.run AND s.no = o.no AND s.idx = o.idx
    RETURNING s.run, s.no, s.idx, s.epoch, o.was, s.state, s.why, s.message, o.attempt, o.worker, o.result
  ), kept AS (
    INSERT INTO bugle.flow_value (run, no, idx, epoch, value) SELECT e.run, e.no, e.idx, e.epoch, e.result FROM ended e WHERE e.state = 'succeeded'
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, message)
    SELECT moment, e.run, e.no, e.idx, e.epoch, CASE e.state WHEN 'failed' THEN 'fail' ELSE 'ack' END, e.was, e.state, e.attempt, e.worker, e.why, e.message FROM ended e
  )
  SELECT array_agg(ROW(e.run, e.no, e.idx, e.epoch, e.state)::bugle.step_end) INTO ends FROM ended e;
  IF ends IS NOT NULL THEN
    PERFORM bugle.follow(ends, moment);
    PERFORM bugle.tell_events(ends, moment);
  END IF;
  RETURN QUERY
  SELECT u.id, NULL::int FROM unnest(held.id) AS u (id)
  UNION ALL
  SELECT NULL, q FROM bugle.unrung(p_queue, ARRAY(SELECT DISTINCT e.run FROM unnest(ends) AS e)) AS q;
END $$;

-- What is wrong with the output of a decision; NULL: nothing.
CREATE FUNCTION bugle.wrong_choice(d bugle.definition_step, p_output jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  names text[] := ARRAY(
    SELECT c.name FROM bugle.definition_edge e JOIN bugle.definition_step c ON c.definition = e.definition AND c.no = e.to_no
    WHERE e.definition = d.definition AND e.from_no = d.no AND e.on_state = 'success' ORDER BY c.no);
  stranger jsonb;
BEGIN
  SELECT c INTO stranger FROM jsonb_array_elements(CASE jsonb_typeof(p_output) WHEN 'array' THEN p_output ELSE jsonb_build_array(p_output) END) AS c
  WHERE jsonb_typeof(c) <> 'string' OR (c #>> '{}') <> ALL (names) LIMIT 1;
  IF FOUND THEN
    RETURN format('decided for %s; the steps to choose from are %s, by name or as a list of names', left(stranger::text, 200), array_to_string(names, ', '));
  END IF;
  RETURN NULL;
END $$;

-- Ends attempts that failed: as bugle.fail for jobs. p_retry_in: when to try again; NULL: never. Failed for good as well when the attempts of the step are used up.
CREATE FUNCTION bugle.fail_steps(
  p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[], p_closed bigint[],
  p_retry_in interval[], p_code text[], p_message text[]
) RETURNS TABLE (id bigint, state text) LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
  held record;
  m record;
BEGIN
  SELECT array_agg(t.job) AS job, array_agg(t.worker) AS worker, array_agg(p_retry_in[t.n]) AS retry_in, array_agg(p_code[t.n]) AS code, array_agg(p_message[t.n]) AS message,
    array_agg(((t.job).payload->>0)::bigint) AS run
  INTO held FROM bugle.take_held(p_queue, p_lane, p_x, p_id, p_token) t;
  DELETE FROM bugle.lease l WHERE l.token = ANY (p_closed);
  IF held.job IS NULL THEN
    RETURN;
  END IF;
  PERFORM bugle.lock_runs(held.run);
  moment := clock_timestamp();
  WITH tried AS (
    SELECT j.*, (j.payload->>0)::bigint AS run, (j.payload->>1)::smallint AS no, (j.payload->>2)::int AS idx, (j.payload->>3)::int AS epoch,
      held.worker[j.place] AS worker, held.retry_in[j.place] AS retry_in, held.code[j.place] AS code, held.message[j.place] AS message
    FROM unnest(held.job) WITH ORDINALITY AS j (queue, lane, attempt, x, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload, place)
  ), judged AS (
    SELECT t.*, s.state AS was, (t.retry_in IS NULL OR t.attempt + 1 >= d.attempts) AS is_last
    FROM tried t
    JOIN bugle.run r ON r.id = t.run
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = t.no
    JOIN bugle.step s ON s.run = t.run AND s.no = t.no AND s.idx = t.idx AND s.epoch = t.epoch AND s.state IN ('ready', 'running', 'waiting')
  ), moved AS (
    UPDATE bugle.step s
    SET state = CASE WHEN j.is_last THEN 'failed' ELSE 'waiting' END, why = CASE WHEN j.is_last THEN j.code ELSE 'retry' END, message = j.message,
      due_at = CASE WHEN NOT j.is_last THEN moment + j.retry_in END, attempt = j.attempt + 1, worker = j.worker, since = moment
    FROM judged j
    WHERE s.run = j.run AND s.no = j.no AND s.idx = j.idx
    RETURNING j.id, j.was, j.code, s.run, s.no, s.idx, s.epoch, s.state, s.message, s.due_at, s.attempt, s.worker
  ), again AS (
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT j.queue, j.lane, j.attempt + 1, v.due_at, j.id, j.enqueued_at, j.max_attempts, j.kind, j.key, j.extra, j.payload
    FROM moved v JOIN judged j ON j.id = v.id WHERE v.state = 'waiting'
  ), noted AS (
    INSERT INTO bugle.failure (failed_at, queue, id, attempt, worker, code, message)
    SELECT moment, j.queue, j.id, j.attempt + 1, j.worker, j.code, j.message FROM judged j
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, message, due_at)
    SELECT moment, v.run, v.no, v.idx, v.epoch, 'fail', v.was, v.state, v.attempt, v.worker, v.code, v.message, v.due_at FROM moved v
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, CASE WHEN v.state = 'waiting' THEN 5 ELSE 4 END, count(*) FROM tried t LEFT JOIN moved v ON v.id = t.id GROUP BY 2
  )
  SELECT array_agg(v.id) AS id, array_agg(v.state) AS state, bool_or(v.state = 'waiting') AS waits,
    array_agg(ROW(v.run, v.no, v.idx, v.epoch, v.state)::bugle.step_end) FILTER (WHERE v.state = 'failed') AS ends,
    array_agg(ROW(v.run, v.no, v.idx, v.epoch, v.state)::bugle.step_end) AS moves
  INTO m FROM moved v;
  IF m.ends IS NOT NULL THEN
    PERFORM bugle.follow(m.ends, moment);
  END IF;
  IF m.moves IS NOT NULL THEN
    PERFORM bugle.tell_events(m.moves, moment);
  END IF;
  IF m.waits THEN   -- sleepers must learn of the next attempt
    PERFORM bugle.check_bell(p_queue);
  END IF;
  RETURN QUERY SELECT (j).id, 'dead' FROM unnest(held.job) AS j WHERE (j).id <> ALL (coalesce(m.id, '{}'))
    UNION ALL SELECT u.id, CASE u.state WHEN 'waiting' THEN 'scheduled' ELSE 'dead' END FROM unnest(m.id, m.state) AS u (id, state);
END $$;

-- Domain events: what a definition wants to be told of its steps, pushed as messages in the transaction in which they happen.
CREATE FUNCTION bugle.tell_events(p_moves bugle.step_end[], p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  e record;
BEGIN
  FOR e IN
    SELECT m.*, w->>'queue' AS queue, n.name AS namespace, f.name AS definition, f.version, d.name AS step
    FROM unnest(p_moves) AS m
    JOIN bugle.run r ON r.id = m.run
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = m.no
    JOIN bugle.definition f ON f.id = r.definition
    JOIN bugle.namespace n ON n.id = r.namespace
    CROSS JOIN LATERAL jsonb_array_elements(d.events) AS w
    WHERE d.events IS NOT NULL
      AND CASE w->>'on' WHEN 'success' THEN m.state = 'succeeded' WHEN 'failure' THEN m.state = 'failed' WHEN 'retry' THEN m.state = 'waiting' ELSE m.state <> 'waiting' END
  LOOP
    PERFORM bugle.tell_event(e.namespace, e.queue, e.run::text, jsonb_build_object('definition', e.definition, 'version', e.version, 'run', e.run, 'step', e.step, 'element', nullif(e.idx, 0),
      'state', e.state, 'at', p_moment, 'output', CASE WHEN e.state = 'succeeded' THEN (SELECT v.value FROM bugle.flow_value v WHERE v.run = e.run AND v.no = e.no AND v.idx = e.idx AND v.epoch = e.epoch) END));
  END LOOP;
END $$;

-- Pushes an event, as bugle.push does. A settlement never fails for it, or it would fail for ever: a queue that is full takes it all the same, one that was
-- deleted is made again, and where there is one that cannot hold it, which nobody can make any more, that is told in the server's log.
CREATE FUNCTION bugle.tell_event(p_namespace text, p_queue text, p_partition text, p_payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.find_queue(p_namespace, p_queue);
  what text;
BEGIN
  IF number IS NULL THEN
    number := bugle.declare_queue(p_queue, p_namespace, 'messages');
  END IF;
  SELECT q.holds INTO what FROM bugle.queue q WHERE q.id = number;
  IF what <> 'messages' THEN
    RAISE WARNING 'an event of run % is not told: queue "%" holds %', p_partition, left(p_queue, 80), what;
    RETURN;
  END IF;
  INSERT INTO bugle.tail (queue, partition, payload) VALUES (number, p_partition, p_payload::text);
  PERFORM bugle.check_bell(number);
END $$;

-- Which of these jobs are still held and carry a step that is still theirs: as bugle.held for jobs.
CREATE FUNCTION bugle.held_steps(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[], p_token bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT u.id
  FROM unnest(p_lane, p_x, p_id, p_token) AS u (lane, x, id, token)
  WHERE EXISTS (
      SELECT FROM bugle.job h
      JOIN bugle.step s ON s.run = (h.payload->>0)::bigint AND s.no = (h.payload->>1)::smallint AND s.idx = (h.payload->>2)::int AND s.epoch = (h.payload->>3)::int
      WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id)
    AND EXISTS (SELECT FROM bugle.lease l WHERE l.token = u.token OFFSET 0);
END $$;

-- Ends one step inside the transaction of whoever did its work: as bugle.ack_in for jobs.
CREATE FUNCTION bugle.ack_step_in(p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_token bigint, p_result jsonb DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM bugle.held_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token]);
  IF FOUND THEN
    PERFORM bugle.ack_steps(p_queue, ARRAY[p_lane], ARRAY[p_x], ARRAY[p_id], ARRAY[p_token], '{}', ARRAY[p_result]);
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the step of job % is no longer held: its lease was lost, or it was cancelled or has ended', p_id
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Nothing of this transaction will be kept.';
  END IF;
END $$;

-- Keeps how far a step has come, for its next attempt (p_checkpoint) and for people (p_progress). False: it is not this one's any more.
CREATE FUNCTION bugle.save_checkpoint(p_run bigint, p_no smallint, p_idx int, p_epoch int, p_token bigint, p_checkpoint jsonb, p_progress jsonb) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  UPDATE bugle.step s SET checkpoint = coalesce(p_checkpoint, s.checkpoint), progress = coalesce(p_progress, s.progress)
  WHERE s.run = p_run AND s.no = p_no AND s.idx = p_idx AND s.epoch = p_epoch AND s.token = p_token AND s.state = 'running';
  RETURN FOUND;
END $$;

-- Which of these jobs, or of the runs whose steps they carry, somebody else's open transaction holds: as bugle.locked for jobs.
CREATE FUNCTION bugle.locked_steps(p_queue int, p_lane smallint[], p_x bigint[], p_id bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT bugle.locked(p_queue, p_lane, p_x, p_id)
  UNION
  SELECT j.id
  FROM unnest(p_lane, p_x, p_id) AS u (lane, x, id)
  CROSS JOIN LATERAL (SELECT h.id, (h.payload->>0)::bigint AS run FROM bugle.job h WHERE h.queue = p_queue AND h.lane = u.lane AND h.x = u.x AND h.id = u.id OFFSET 0) j
  WHERE EXISTS (SELECT FROM bugle.run r WHERE r.id = j.run)   -- one that was removed holds nobody up
    AND NOT EXISTS (SELECT FROM bugle.run r WHERE r.id = j.run FOR NO KEY UPDATE SKIP LOCKED);
END $$;
