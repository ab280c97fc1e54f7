-- What Bugle does itself in a workflow: ends sleeps and waits when their time has come, matches signals with who waits for them, and sees to
-- deadlines. Each is a job in the engine's queue of its namespace, run by whatever node serves the namespace.

-- Signals that nobody has taken yet, and steps that wait for one. The oldest of either first.
CREATE TABLE bugle.signal (
  namespace int NOT NULL,
  key text COLLATE "C" NOT NULL,
  id bigint NOT NULL DEFAULT nextval('bugle.job_id'),
  payload jsonb NOT NULL,
  actor text,
  sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (namespace, key, id)
);

CREATE TABLE bugle.signal_wait (
  namespace int NOT NULL,
  key text COLLATE "C" NOT NULL,
  run bigint NOT NULL,
  no smallint NOT NULL,
  epoch int NOT NULL,
  PRIMARY KEY (namespace, key, run, no, epoch)
);

CREATE FUNCTION bugle.signal_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.signal'::bytea), 'hex'), 8))::bit(32)::int;

-- Has the engine match what is there for a key, after this transaction has committed: whoever comes second sees the first, and nobody holds a
-- run and a key at the same time in the wrong order.
CREATE FUNCTION bugle.ask_match(p_namespace int, p_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  INSERT INTO bugle.job (queue, lane, max_attempts, kind, payload)
  SELECT f.engine, 1, 32767, 'match', to_jsonb(p_key) FROM bugle.flow f WHERE f.namespace = p_namespace
  RETURNING queue INTO STRICT number;
  INSERT INTO bugle.tally (queue, move, n) VALUES (number, 1, 1);
  PERFORM bugle.check_bell(number);
END $$;

-- A step begins to wait for its signal. {run} in the key stands for the run's number.
CREATE FUNCTION bugle.await_signal(r bugle.run, d bugle.definition_step, p_epoch int, p_moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  its_key text := replace(d.signal_key, '{run}', r.id::text);
BEGIN
  INSERT INTO bugle.signal_wait (namespace, key, run, no, epoch) VALUES (r.namespace, its_key, r.id, d.no, p_epoch);
  PERFORM bugle.ask_match(r.namespace, its_key);
  IF d.signal_timeout IS NOT NULL THEN
    PERFORM bugle.remind(r.namespace, 'end_wait', p_moment + d.signal_timeout, r.id, d.no, p_epoch);
  END IF;
END $$;

-- Sends a signal: one step that waits for this key gets it, now or when it begins to wait. In the caller's own transaction.
CREATE FUNCTION bugle.send_signal(key text, payload jsonb DEFAULT 'null', namespace text DEFAULT 'default', actor text DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_key ALIAS FOR key; a_payload ALIAS FOR payload; a_namespace ALIAS FOR namespace; a_actor ALIAS FOR actor;
  space int := (SELECT n.id FROM bugle.namespace n WHERE n.name = a_namespace);
  number bigint;
BEGIN
  IF octet_length(a_key) NOT BETWEEN 1 AND 255 OR a_key IS NULL OR a_key ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'key is % bytes long; allowed are 1 to 255 bytes without control characters', coalesce(octet_length(a_key), 0)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Use the key that the step waits for.';
  ELSIF a_payload IS NULL OR octet_length(a_payload::text) > 262144 THEN
    RAISE EXCEPTION 'payload is % bytes long; allowed are at most 262144', coalesce(octet_length(a_payload::text)::text, 'NULL,')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Store the data elsewhere and send a reference to it.';
  END IF;
  PERFORM bugle.declare_flow(a_namespace);
  INSERT INTO bugle.signal (namespace, key, payload, actor) VALUES (space, a_key, a_payload, a_actor) RETURNING id INTO number;
  PERFORM bugle.ask_match(space, a_key);
  RETURN number;
END $$;

-- Gives signals to those who wait for them.
CREATE FUNCTION bugle.match_signals(p_namespace int, p_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  w bugle.signal_wait;
  s bugle.signal;
BEGIN
  PERFORM pg_advisory_xact_lock(bugle.signal_class(), hashtext(p_namespace || ' ' || p_key));
  FOR w IN SELECT * FROM bugle.signal_wait k WHERE k.namespace = p_namespace AND k.key = p_key ORDER BY k.run, k.no LOOP
    SELECT * INTO s FROM bugle.signal g WHERE g.namespace = p_namespace AND g.key = p_key ORDER BY g.id LIMIT 1;
    EXIT WHEN NOT FOUND;
    DELETE FROM bugle.signal_wait k WHERE k.namespace = p_namespace AND k.key = p_key AND k.run = w.run AND k.no = w.no AND k.epoch = w.epoch;
    IF bugle.end_waiting(w.run, w.no, w.epoch, 'signal', 'succeeded', 'signal', s.payload, s.actor, NULL, NULL) THEN
      DELETE FROM bugle.signal g WHERE g.namespace = p_namespace AND g.key = p_key AND g.id = s.id;
    END IF;   -- else he waits no longer, and the signal is another's
  END LOOP;
END $$;

-- Ends a step that waits for p_why; false when it does not any more.
CREATE FUNCTION bugle.end_waiting(
  p_run bigint, p_no smallint, p_epoch int, p_why text, p_state text, p_cause text, p_value jsonb, p_actor text, p_reason text, p_message text
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  moment timestamptz;
BEGIN
  PERFORM bugle.lock_runs(ARRAY[p_run]);
  moment := clock_timestamp();
  UPDATE bugle.step s SET state = p_state, since = moment, due_at = NULL, why = p_reason, message = p_message, worker = p_actor
  WHERE s.run = p_run AND s.no = p_no AND s.idx = 0 AND s.epoch = p_epoch AND s.state = 'waiting' AND s.why = p_why;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF p_state = 'succeeded' THEN
    INSERT INTO bugle.flow_value (run, no, idx, epoch, value) VALUES (p_run, p_no, 0, p_epoch, p_value);
  END IF;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why, message)
  VALUES (moment, p_run, p_no, 0, p_epoch, p_cause, 'waiting', p_state, p_actor, p_reason, p_message);
  PERFORM bugle.follow(ARRAY[ROW(p_run, p_no, 0, p_epoch, p_state)::bugle.step_end], moment);
  PERFORM bugle.tell_events(ARRAY[ROW(p_run, p_no, 0, p_epoch, p_state)::bugle.step_end], moment);
  RETURN true;
END $$;

-- Ends steps of a run that have not ended, of all of it or of one step with its elements. Their jobs are strangers' from now on, and whoever runs
-- them is told (control).
CREATE FUNCTION bugle.end_open_steps(p_run bigint, p_no smallint, p_state text, p_cause text, p_actor text, p_why text, p_message text, p_moment timestamptz) RETURNS bugle.step_end[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  ends bugle.step_end[];
  has_runners boolean;
BEGIN
  WITH open AS (
    SELECT s.run, s.no, s.idx, s.state FROM bugle.step s
    WHERE s.run = p_run AND (p_no IS NULL OR s.no = p_no) AND s.state IN ('pending', 'ready', 'running', 'waiting')
  ), ended AS (
    UPDATE bugle.step s SET state = p_state, epoch = s.epoch + 1, since = p_moment, due_at = NULL, why = p_why, message = p_message
    FROM open o
    WHERE s.run = o.run AND s.no = o.no AND s.idx = o.idx
    RETURNING s.run, s.no, s.idx, s.epoch, s.state, o.state AS was
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why, message)
    SELECT p_moment, e.run, e.no, e.idx, e.epoch, p_cause, e.was, e.state, p_actor, p_why, p_message FROM ended e
  )
  SELECT array_agg(ROW(e.run, e.no, e.idx, e.epoch, e.state)::bugle.step_end) FILTER (WHERE e.idx = 0), bool_or(e.was = 'running') INTO ends, has_runners FROM ended e;
  IF has_runners THEN
    PERFORM bugle.ring_control();
  END IF;
  RETURN ends;
END $$;

-- A step's own deadline is over.
CREATE FUNCTION bugle.end_step(p_run bigint, p_no smallint, p_epoch int) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  ends bugle.step_end[];
  moment timestamptz;
BEGIN
  PERFORM bugle.lock_runs(ARRAY[p_run]);
  moment := clock_timestamp();
  PERFORM 1 FROM bugle.step s WHERE s.run = p_run AND s.no = p_no AND s.idx = 0 AND s.epoch = p_epoch;
  IF FOUND THEN
    ends := bugle.end_open_steps(p_run, p_no, 'failed', 'deadline', NULL, 'deadline', 'it did not end within its deadline', moment);
    IF ends IS NOT NULL THEN
      PERFORM bugle.follow(ends, moment);
      PERFORM bugle.tell_events(ends, moment);
    END IF;
  END IF;
END $$;

-- Ends a run that has not ended, and all its open steps; false when there is no such run.
CREATE FUNCTION bugle.stop_run(p_run bigint, p_state text, p_cause text, p_actor text, p_why text) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  moment timestamptz;
BEGIN
  PERFORM bugle.lock_runs(ARRAY[p_run]);
  moment := clock_timestamp();
  PERFORM 1 FROM bugle.run r WHERE r.id = p_run AND r.ended_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM bugle.end_open_steps(p_run, NULL, 'cancelled', 'cancel', p_actor, p_why, NULL, moment);
  UPDATE bugle.run SET steps_left = 0 WHERE id = p_run;
  PERFORM bugle.end_run(p_run, p_state, p_cause, p_actor, p_why, moment);
  RETURN true;
END $$;

-- Does what a job of the engine's queue says. What is no longer so is nothing to be done.
CREATE FUNCTION bugle.run_engine(p_queue int, p_kind text, p_payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  CASE p_kind
    WHEN 'match' THEN
      PERFORM bugle.match_signals((SELECT f.namespace FROM bugle.flow f WHERE f.engine = p_queue), p_payload #>> '{}');
    WHEN 'end_sleep' THEN
      PERFORM bugle.end_waiting((p_payload->>0)::bigint, (p_payload->>1)::smallint, (p_payload->>3)::int, 'sleep', 'succeeded', 'time', 'null', NULL, NULL, NULL);
    WHEN 'end_wait' THEN
      PERFORM bugle.end_waiting((p_payload->>0)::bigint, (p_payload->>1)::smallint, (p_payload->>3)::int, 'signal', 'failed', 'time', NULL, NULL, 'timeout', 'no signal came in time');
    WHEN 'end_step' THEN
      PERFORM bugle.end_step((p_payload->>0)::bigint, (p_payload->>1)::smallint, (p_payload->>3)::int);
    WHEN 'end_run' THEN
      PERFORM bugle.stop_run((p_payload->>0)::bigint, 'failed', 'end', NULL, 'deadline');
  END CASE;
END $$;

-- Cancels a run: nothing of it begins any more, and whoever runs a step of it is told to stop. False: there is none in this namespace that has not ended.
CREATE FUNCTION bugle.cancel_run(run bigint, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_run ALIAS FOR run; a_namespace ALIAS FOR namespace; a_actor ALIAS FOR actor; a_reason ALIAS FOR reason;
BEGIN
  PERFORM 1 FROM bugle.run r JOIN bugle.namespace n ON n.id = r.namespace WHERE r.id = a_run AND n.name = a_namespace;
  RETURN FOUND AND bugle.stop_run(a_run, 'cancelled', 'cancel', a_actor, a_reason);
END $$;
