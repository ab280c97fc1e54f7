-- What people do with runs and steps: pause and resume them, try a step again, resolve it by hand, skip it, restart from it.
-- Every function here takes the run's lock, and writes who did it into the log.

-- A run of a namespace, locked; refuses when there is none.
CREATE FUNCTION bugle.take_run(p_run bigint, p_namespace text) RETURNS bugle.run LANGUAGE plpgsql AS $$
DECLARE
  r bugle.run;
BEGIN
  SELECT k.* INTO r FROM bugle.run k JOIN bugle.namespace n ON n.id = k.namespace WHERE k.id = p_run AND n.name = p_namespace FOR NO KEY UPDATE OF k;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no run % in namespace "%"', p_run, left(p_namespace, 80)
      USING ERRCODE = 'BGL12', HINT = 'List the runs with bugle flow ls (ended runs are kept for some days).';
  END IF;
  RETURN r;
END $$;

-- A step of a run, by its name; refuses when there is none. Elements of a map by their number.
CREATE FUNCTION bugle.take_step(r bugle.run, p_step text, p_idx int DEFAULT 0) RETURNS bugle.step LANGUAGE plpgsql AS $$
DECLARE
  s bugle.step;
BEGIN
  SELECT k.* INTO s FROM bugle.definition_step d JOIN bugle.step k ON k.run = r.id AND k.no = d.no AND k.idx = p_idx WHERE d.definition = r.definition AND d.name = p_step;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'run % has no step "%"%', r.id, left(p_step, 80), CASE WHEN p_idx > 0 THEN ' with an element ' || p_idx ELSE '' END
      USING ERRCODE = 'BGL12', HINT = format('Its steps are %s.', (SELECT string_agg(d.name, ', ' ORDER BY d.no) FROM bugle.definition_step d WHERE d.definition = r.definition));
  END IF;
  RETURN s;
END $$;

-- The steps that come after one, at any distance.
CREATE FUNCTION bugle.descendants(p_definition int, p_no smallint) RETURNS smallint[] LANGUAGE sql STABLE AS $$
  WITH RECURSIVE below AS (
    SELECT e.to_no FROM bugle.definition_edge e WHERE e.definition = p_definition AND e.from_no = p_no
    UNION
    SELECT e.to_no FROM below b JOIN bugle.definition_edge e ON e.definition = p_definition AND e.from_no = b.to_no
  )
  SELECT coalesce(array_agg(b.to_no ORDER BY b.to_no), '{}') FROM below b
$$;

-- Makes steps pending again, as if they had never begun: their jobs are strangers' from now on, their elements are gone, and the counters of the run are
-- worked out anew. The run goes on if it had ended.
CREATE FUNCTION bugle.reopen(r bugle.run, p_nos smallint[], p_cause text, p_actor text, p_why text, p_moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  has_runners boolean;
BEGIN
  SELECT bool_or(s.state = 'running') INTO has_runners FROM bugle.step s WHERE s.run = r.id AND s.no = ANY (p_nos);
  WITH gone AS (
    DELETE FROM bugle.step s WHERE s.run = r.id AND s.no = ANY (p_nos) AND s.idx > 0 RETURNING s.no, s.epoch
  ), before AS (
    SELECT s.no, s.state, (SELECT max(g.epoch) FROM gone g WHERE g.no = s.no) AS last
    FROM bugle.step s WHERE s.run = r.id AND s.no = ANY (p_nos) AND s.idx = 0 AND s.state <> 'pending'
  ), again AS (
    UPDATE bugle.step s
    -- Of a map behind those of its elements as well: one that was tried again or paused has another than the map, and its job may still be out there.
    SET state = 'pending', epoch = greatest(s.epoch, b.last) + 1, attempt = 0, since = p_moment, due_at = NULL, why = NULL, message = NULL, worker = NULL, token = NULL,
      checkpoint = NULL, progress = NULL, items_left = 0, items_ready = 0, items_failed = 0
    FROM before b
    WHERE s.run = r.id AND s.no = b.no AND s.idx = 0
    RETURNING s.no, s.epoch, b.state AS was
  )
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why)
  SELECT p_moment, r.id, a.no, 0, a.epoch, p_cause, a.was, 'pending', p_actor, p_why FROM again a;
  UPDATE bugle.step s SET parents_left = m.parents_left, satisfied = m.satisfied
  FROM bugle.count_parents(r.id) m
  WHERE s.run = r.id AND s.no = m.no AND s.idx = 0;
  UPDATE bugle.run k
  SET steps_left = c.left_over, failed = c.failed, ended_at = NULL, state = CASE WHEN k.ended_at IS NULL THEN k.state ELSE 'running' END
  FROM (
    SELECT count(*) FILTER (WHERE s.state NOT IN ('succeeded', 'failed', 'skipped', 'cancelled'))::int AS left_over,
      (count(*) FILTER (WHERE s.state = 'failed' AND NOT d.goes_on AND NOT d.seen_to))::int AS failed
    FROM bugle.step s JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
    WHERE s.run = r.id AND s.idx = 0
  ) c
  WHERE k.id = r.id;
  IF r.ended_at IS NOT NULL THEN
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why)
    VALUES (p_moment, r.id, 0, 0, 0, 'restart', r.state, 'running', p_actor, p_why);
  END IF;
  IF has_runners THEN
    PERFORM bugle.ring_control();
  END IF;
END $$;

-- Hands a pending step over whatever its parents did: somebody wants it to run.
CREATE FUNCTION bugle.let_run(r bugle.run, p_no smallint, p_cause text, p_actor text, p_why text, p_moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  d bugle.definition_step;
  s bugle.step;
  at_once record;
BEGIN
  SELECT * INTO STRICT d FROM bugle.definition_step k WHERE k.definition = r.definition AND k.no = p_no;
  UPDATE bugle.step k
  SET state = CASE WHEN d.kind IN ('sleep', 'signal', 'map') THEN 'waiting' ELSE 'ready' END, why = CASE WHEN d.kind IN ('sleep', 'signal', 'map') THEN d.kind END,
    since = p_moment, due_at = p_moment + coalesce(d.sleep, d.signal_timeout)
  WHERE k.run = r.id AND k.no = p_no AND k.idx = 0 AND k.state = 'pending'
  RETURNING * INTO STRICT s;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why, due_at)
  VALUES (p_moment, r.id, p_no, 0, s.epoch, p_cause, 'pending', s.state, p_actor, coalesce(p_why, s.why), s.due_at);
  FOR at_once IN SELECT * FROM bugle.hand_over(ARRAY[r.id], ARRAY[p_no], ARRAY[s.epoch], p_moment) LOOP
    PERFORM bugle.go_on(ARRAY[at_once.run], ARRAY[at_once.no], ARRAY[at_once.state], p_moment);
  END LOOP;
END $$;

-- Refuses to change a step after which others have begun.
CREATE FUNCTION bugle.check_none_begun(r bugle.run, p_step text, p_nos smallint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  begun text;
BEGIN
  SELECT string_agg(d.name, ', ' ORDER BY d.no) INTO begun
  FROM bugle.step s JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
  WHERE s.run = r.id AND s.no = ANY (p_nos) AND s.idx = 0 AND s.state NOT IN ('pending', 'skipped', 'cancelled');
  IF begun IS NOT NULL THEN
    RAISE EXCEPTION 'steps after "%" have begun: %', left(p_step, 80), left(begun, 200)
      USING ERRCODE = 'BGL13', HINT = 'Restart from the step instead: those run again as well.';
  END IF;
END $$;

-- Tries a step again that failed, was put off, or waits for its next attempt, with all its attempts anew; an element of a map as well. Returns the state that it was in.
CREATE FUNCTION bugle.retry_step(run bigint, step text, element int DEFAULT 0, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_step ALIAS FOR step; a_element ALIAS FOR element; a_actor ALIAS FOR actor; a_reason ALIAS FOR reason;
  r bugle.run := bugle.take_run(run, namespace);
  s bugle.step := bugle.take_step(r, a_step, a_element);
  moment timestamptz := clock_timestamp();
  below smallint[] := bugle.descendants(r.definition, s.no);
BEGIN
  IF NOT (s.state = 'failed' OR s.state = 'waiting' AND s.why IN ('retry', 'snoozed')) THEN
    RAISE EXCEPTION 'step "%" of run % is %', left(a_step, 80), r.id, s.state
      USING ERRCODE = 'BGL13', HINT = 'Only a step that failed or waits for its next attempt can be tried again; restart from it to run it once more.';
  END IF;
  IF s.state = 'waiting' THEN
    UPDATE bugle.step k SET state = 'ready', epoch = k.epoch + 1, attempt = 0, since = moment, due_at = NULL, why = NULL
    WHERE k.run = s.run AND k.no = s.no AND k.idx = s.idx RETURNING k.* INTO s;
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why) VALUES (moment, s.run, s.no, s.idx, s.epoch, 'retry', 'waiting', 'ready', a_actor, a_reason);
    PERFORM bugle.carry(ARRAY[s.run], ARRAY[s.no], ARRAY[s.idx], ARRAY[s.epoch]);
    RETURN 'waiting';
  END IF;
  PERFORM bugle.check_none_begun(r, a_step, below);
  IF a_element > 0 THEN
    PERFORM bugle.retry_element(r, s, below, a_actor, a_reason, moment);
  ELSE
    PERFORM bugle.reopen(r, below || s.no, 'retry', a_actor, a_reason, moment);
    PERFORM bugle.let_run(r, s.no, 'retry', a_actor, a_reason, moment);
  END IF;
  RETURN 'failed';
END $$;

-- Tries one element of a map again; the map waits for it once more.
CREATE FUNCTION bugle.retry_element(r bugle.run, s bugle.step, p_below smallint[], p_actor text, p_why text, p_moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  whole bugle.step;
BEGIN
  SELECT * INTO STRICT whole FROM bugle.step k WHERE k.run = s.run AND k.no = s.no AND k.idx = 0;
  UPDATE bugle.step k SET state = 'ready', epoch = k.epoch + 1, attempt = 0, since = p_moment, why = NULL, message = NULL WHERE k.run = s.run AND k.no = s.no AND k.idx = s.idx;
  UPDATE bugle.step k SET state = 'waiting', why = 'map', message = NULL, since = p_moment, items_left = k.items_left + 1, items_failed = k.items_failed - 1
  WHERE k.run = s.run AND k.no = s.no AND k.idx = 0;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why)
  SELECT p_moment, s.run, s.no, v.idx, v.epoch, 'retry', v.was, v.becomes, p_actor, v.why
  FROM (VALUES (s.idx, s.epoch + 1, s.state, 'ready', p_why), (0, whole.epoch, whole.state, 'waiting', 'map')) AS v (idx, epoch, was, becomes, why) WHERE v.was <> v.becomes;
  PERFORM bugle.reopen(r, p_below, 'retry', p_actor, p_why, p_moment);
  PERFORM bugle.carry(ARRAY[s.run], ARRAY[s.no], ARRAY[s.idx], ARRAY[s.epoch + 1]);
END $$;

-- Ends a step by hand: succeeded with p_output, or skipped. Returns the state that it was in.
CREATE FUNCTION bugle.end_by_hand(p_run bigint, p_step text, p_namespace text, p_state text, p_cause text, p_output jsonb, p_actor text, p_why text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r bugle.run := bugle.take_run(p_run, p_namespace);
  s bugle.step := bugle.take_step(r, p_step);
  moment timestamptz := clock_timestamp();
  below smallint[] := bugle.descendants(r.definition, s.no);
  was text := s.state;
BEGIN
  IF was = 'succeeded' OR was = p_state THEN
    RAISE EXCEPTION 'step "%" of run % is % already', left(p_step, 80), r.id, was
      USING ERRCODE = 'BGL13', HINT = 'Restart from it to run it once more.';
  END IF;
  PERFORM bugle.check_none_begun(r, p_step, below);
  PERFORM bugle.reopen(r, below || s.no, p_cause, p_actor, p_why, moment);
  UPDATE bugle.step k SET state = p_state, since = moment, why = p_cause, worker = p_actor WHERE k.run = r.id AND k.no = s.no AND k.idx = 0 RETURNING k.* INTO s;
  IF p_state = 'succeeded' THEN
    INSERT INTO bugle.flow_value (run, no, idx, epoch, value) VALUES (r.id, s.no, 0, s.epoch, p_output);
  END IF;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why) VALUES (moment, r.id, s.no, 0, s.epoch, p_cause, 'pending', p_state, p_actor, p_why);
  PERFORM bugle.go_on(ARRAY[r.id], ARRAY[s.no], ARRAY[p_state], moment);
  RETURN was;
END $$;

CREATE FUNCTION bugle.resolve_step(run bigint, step text, output jsonb DEFAULT 'null', namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
  SELECT bugle.end_by_hand(run, step, namespace, 'succeeded', 'resolve', output, actor, reason)
$$;

CREATE FUNCTION bugle.skip_step(run bigint, step text, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
  SELECT bugle.end_by_hand(run, step, namespace, 'skipped', 'skip', NULL, actor, reason)
$$;

-- Runs a step and all that comes after it once more, whatever became of them. Returns how many steps begin anew.
CREATE FUNCTION bugle.restart_from(run bigint, step text, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_step ALIAS FOR step; a_actor ALIAS FOR actor; a_reason ALIAS FOR reason;
  r bugle.run := bugle.take_run(run, namespace);
  s bugle.step := bugle.take_step(r, a_step);
  moment timestamptz := clock_timestamp();
  nos smallint[] := s.no || bugle.descendants(r.definition, s.no);
BEGIN
  IF s.state = 'pending' THEN
    RAISE EXCEPTION 'step "%" of run % is pending: it has not begun', left(a_step, 80), r.id
      USING ERRCODE = 'BGL13', HINT = 'Restart from one of its parents, or resolve or skip what it waits for.';
  END IF;
  PERFORM bugle.reopen(r, nos, 'restart', a_actor, a_reason, moment);
  PERFORM bugle.let_run(r, s.no, 'restart', a_actor, a_reason, moment);
  RETURN cardinality(nos);
END $$;

-- Pauses a run: nothing of it begins; what runs goes on and is settled. False when it was paused already or has ended.
CREATE FUNCTION bugle.pause_run(run bigint, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_actor ALIAS FOR actor; a_reason ALIAS FOR reason;
  r bugle.run := bugle.take_run(run, namespace);
BEGIN
  IF r.paused OR r.ended_at IS NOT NULL THEN
    RETURN false;
  END IF;
  UPDATE bugle.run k SET paused = true WHERE k.id = r.id;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why) VALUES (clock_timestamp(), r.id, 0, 0, 0, 'pause', r.state, r.state, a_actor, a_reason);
  RETURN true;
END $$;

-- Lets a paused run go on: what would have begun meanwhile is ready now. False when it was not paused.
CREATE FUNCTION bugle.resume_run(run bigint, namespace text DEFAULT 'default', actor text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_actor ALIAS FOR actor; a_reason ALIAS FOR reason;
  r bugle.run := bugle.take_run(run, namespace);
  moment timestamptz := clock_timestamp();
  held record;
  at_once record;
BEGIN
  IF NOT r.paused THEN
    RETURN false;
  END IF;
  UPDATE bugle.run k SET paused = false WHERE k.id = r.id;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why) VALUES (moment, r.id, 0, 0, 0, 'resume', r.state, r.state, a_actor, a_reason);
  WITH again AS (
    UPDATE bugle.step s
    SET state = CASE WHEN s.idx = 0 AND d.kind IN ('sleep', 'signal', 'map') THEN 'waiting' ELSE 'ready' END,
      why = CASE WHEN s.idx = 0 AND d.kind IN ('sleep', 'signal', 'map') THEN d.kind END,
      since = moment, due_at = CASE WHEN s.idx = 0 THEN moment + coalesce(d.sleep, d.signal_timeout) END
    FROM bugle.definition_step d
    WHERE s.run = r.id AND s.state = 'waiting' AND s.why = 'paused' AND d.definition = r.definition AND d.no = s.no
    RETURNING s.*
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why, due_at)
    SELECT moment, a.run, a.no, a.idx, a.epoch, 'resume', 'waiting', a.state, a_actor, a.why, a.due_at FROM again a
  )
  SELECT array_agg(a.run) FILTER (WHERE a.idx = 0) AS run, array_agg(a.no) FILTER (WHERE a.idx = 0) AS no, array_agg(a.epoch) FILTER (WHERE a.idx = 0) AS epoch,
    array_agg(a.run) FILTER (WHERE a.idx > 0) AS e_run, array_agg(a.no) FILTER (WHERE a.idx > 0) AS e_no, array_agg(a.idx) FILTER (WHERE a.idx > 0) AS e_idx, array_agg(a.epoch) FILTER (WHERE a.idx > 0) AS e_epoch
  INTO held FROM again a;
  IF held.e_run IS NOT NULL THEN
    PERFORM bugle.carry(held.e_run, held.e_no, held.e_idx, held.e_epoch);
  END IF;
  IF held.run IS NOT NULL THEN
    FOR at_once IN SELECT * FROM bugle.hand_over(held.run, held.no, held.epoch, moment) LOOP
      PERFORM bugle.go_on(ARRAY[at_once.run], ARRAY[at_once.no], ARRAY[at_once.state], moment);
    END LOOP;
  END IF;
  RETURN true;
END $$;
