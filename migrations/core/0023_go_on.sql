-- How a run goes on: which steps may run when others have ended, and who learns of it. Everything here happens under the locks of the runs,
-- which are taken in ascending order and before any step's: two parents that end at once come one after the other, and nobody waits in a circle.
-- Plans are pinned, as in 0004: the tables are tiny when a session plans.

-- Locks runs. Whoever changes more than who runs a step calls this first.
CREATE FUNCTION bugle.lock_runs(p_run bigint[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  PERFORM 1 FROM bugle.run r WHERE r.id = ANY (p_run) ORDER BY r.id FOR NO KEY UPDATE;
END $$;

-- What a step brought about: of a map the list of what its elements did, in their order, null for those that failed.
CREATE FUNCTION bugle.output_of(p_run bigint, p_no smallint) RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  IF p_no = 0 THEN
    RETURN (SELECT v.value FROM bugle.flow_value v WHERE v.run = p_run AND v.no = 0);
  ELSIF EXISTS (SELECT FROM bugle.step s WHERE s.run = p_run AND s.no = p_no AND s.idx > 0) THEN
    RETURN (
      SELECT jsonb_agg(v.value ORDER BY s.idx)
      FROM bugle.step s
      LEFT JOIN bugle.flow_value v ON v.run = s.run AND v.no = s.no AND v.idx = s.idx AND v.epoch = s.epoch
      WHERE s.run = p_run AND s.no = p_no AND s.idx > 0);
  END IF;
  RETURN (
    SELECT v.value
    FROM bugle.step s
    JOIN bugle.flow_value v ON v.run = s.run AND v.no = s.no AND v.idx = 0 AND v.epoch = s.epoch
    WHERE s.run = p_run AND s.no = p_no AND s.idx = 0);
END $$;

-- Makes the jobs that carry steps, and wakes who waits for them. idx: the element of a map, 0 for any other step.
CREATE FUNCTION bugle.carry(p_run bigint[], p_no smallint[], p_idx int[], p_epoch int[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  number int;
BEGIN
  FOR number IN
    WITH made AS (
      -- Attempts are counted by the step: a job never dies of them, so that whoever loses the last one is told of by whoever claims it next.
      INSERT INTO bugle.job (queue, lane, max_attempts, kind, extra, payload)
      SELECT coalesce(t.queue, d.queue), coalesce(r.lane, d.lane), 32767, d.handler, d.extra, jsonb_build_array(u.run, u.no, u.idx, u.epoch)
      FROM unnest(p_run, p_no, p_idx, p_epoch) AS u (run, no, idx, epoch)
      JOIN bugle.run r ON r.id = u.run
      JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = u.no
      LEFT JOIN bugle.flow_routed t ON d.is_routed AND t.namespace = r.namespace AND t.lane = coalesce(r.lane, d.lane)
      RETURNING queue
    )
    INSERT INTO bugle.tally (queue, move, n) SELECT m.queue, 1, count(*) FROM made m GROUP BY m.queue
    RETURNING queue
  LOOP
    PERFORM bugle.check_bell(number);
  END LOOP;
END $$;

-- Has the engine do something with a step at a time: p_what is end_sleep, end_wait or end_step.
CREATE FUNCTION bugle.remind(p_namespace int, p_what text, p_at timestamptz, p_run bigint, p_no smallint, p_epoch int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  INSERT INTO bugle.due (queue, lane, attempt, due_at, max_attempts, kind, payload)
  SELECT f.engine, 0, 0, p_at, 32767, p_what, jsonb_build_array(p_run, p_no, 0, p_epoch) FROM bugle.flow f WHERE f.namespace = p_namespace
  RETURNING queue INTO STRICT number;
  INSERT INTO bugle.tally (queue, move, n) VALUES (number, 2, 1);
  PERFORM bugle.check_bell(number);
END $$;

-- Begins a map: a row for each element of its list, and the first of them ready. Returns the state it is in now: waiting, or already ended.
CREATE FUNCTION bugle.begin_map(r bugle.run, d bugle.definition_step, p_epoch int, p_moment timestamptz) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  list jsonb := bugle.output_of(r.id, coalesce(d.over_no, 0::smallint)) #> d.over_at;
  elements int;
  first int;
  ended_as text;
  fault text;
BEGIN
  IF jsonb_typeof(list) = 'array' THEN
    elements := jsonb_array_length(list);
    IF elements > 10000 THEN
      fault := format('the list has %s elements; allowed are at most 10000', elements);
    END IF;
  ELSE
    fault := format('there is no list: %s', coalesce(jsonb_typeof(list), 'nothing'));
  END IF;
  IF fault IS NULL AND elements > 0 THEN
    first := least(elements, coalesce(d.at_once, elements));
    INSERT INTO bugle.step (run, no, idx, state, epoch, parents_left, since)
    SELECT r.id, d.no, i, CASE WHEN i <= first THEN 'ready' ELSE 'pending' END, p_epoch, 0, p_moment FROM generate_series(1, elements) AS i
    ON CONFLICT (run, no, idx) DO UPDATE SET state = excluded.state, epoch = excluded.epoch, since = excluded.since, attempt = 0, why = NULL, message = NULL;
    UPDATE bugle.step SET items_left = elements, items_ready = first, items_failed = 0 WHERE run = r.id AND no = d.no AND idx = 0;
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, to_state)
    SELECT p_moment, r.id, d.no, i, p_epoch, 'parents', CASE WHEN i <= first THEN 'ready' ELSE 'pending' END FROM generate_series(1, elements) AS i;
    PERFORM bugle.carry(array_agg(r.id), array_agg(d.no), array_agg(i), array_agg(p_epoch)) FROM generate_series(1, first) AS i;
    RETURN 'waiting';
  END IF;
  ended_as := CASE WHEN fault IS NULL THEN 'succeeded' ELSE 'failed' END;
  UPDATE bugle.step SET state = ended_as, since = p_moment, why = CASE WHEN fault IS NOT NULL THEN 'no_list' END, message = fault WHERE run = r.id AND no = d.no AND idx = 0;
  IF fault IS NULL THEN
    INSERT INTO bugle.flow_value (run, no, idx, epoch, value) VALUES (r.id, d.no, 0, p_epoch, '[]');
  END IF;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, why, message)
  VALUES (p_moment, r.id, d.no, 0, p_epoch, 'items', 'waiting', ended_as, CASE WHEN fault IS NOT NULL THEN 'no_list' END, fault);
  RETURN ended_as;
END $$;

-- Hands over steps whose turn has come, each by its kind. Returns those that have ended at once.
CREATE FUNCTION bugle.hand_over(p_run bigint[], p_no smallint[], p_epoch int[], p_moment timestamptz) RETURNS TABLE (run bigint, no smallint, state text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  special record;
BEGIN
  PERFORM bugle.carry(array_agg(u.run), array_agg(u.no), array_agg(0), array_agg(u.epoch))
  FROM unnest(p_run, p_no, p_epoch) AS u (run, no, epoch)
  JOIN bugle.run r ON r.id = u.run
  JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = u.no
  WHERE d.kind IN ('task', 'decision')
  HAVING count(*) > 0;
  FOR special IN
    SELECT r, d, d.kind, u.epoch
    FROM unnest(p_run, p_no, p_epoch) AS u (run, no, epoch)
    JOIN bugle.run r ON r.id = u.run
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = u.no
    WHERE d.kind NOT IN ('task', 'decision') OR d.deadline IS NOT NULL
  LOOP
    IF (special.d).deadline IS NOT NULL THEN
      PERFORM bugle.remind((special.r).namespace, 'end_step', p_moment + (special.d).deadline, (special.r).id, (special.d).no, special.epoch);
    END IF;
    IF special.kind = 'sleep' THEN
      PERFORM bugle.remind((special.r).namespace, 'end_sleep', p_moment + (special.d).sleep, (special.r).id, (special.d).no, special.epoch);
    ELSIF special.kind = 'signal' THEN
      PERFORM bugle.await_signal(special.r, special.d, special.epoch, p_moment);
    ELSIF special.kind = 'map' THEN
      run := (special.r).id;
      no := (special.d).no;
      state := bugle.begin_map(special.r, special.d, special.epoch, p_moment);
      IF state <> 'waiting' THEN
        RETURN NEXT;
      END IF;
    END IF;
  END LOOP;
END $$;

-- Is a child chosen by what a decision returned: its name, or a list of names?
CREATE FUNCTION bugle.is_chosen(p_output jsonb, p_name text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(p_output @> to_jsonb(p_name), false);

-- Goes on from steps that have just ended, in these states: counts them down for their children, hands over those whose turn has come, ends
-- those whose turn will never come, and goes on from these; and ends the runs of which nothing is left.
CREATE FUNCTION bugle.go_on(p_run bigint[], p_no smallint[], p_state text[], p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  -- Those that have ended and whose children do not know it yet; all that have ended in this call.
  runs bigint[] := p_run;
  nos smallint[] := p_no;
  states text[] := p_state;
  all_runs bigint[] := p_run;
  all_nos smallint[] := p_no;
  all_states text[] := p_state;
  m record;
  at_once record;
BEGIN
  WHILE cardinality(runs) > 0 LOOP
    WITH edge AS (
      SELECT o.run, e.to_no AS no, count(*)::smallint AS n, count(*) FILTER (WHERE
        CASE e.on_state
          WHEN 'always' THEN true
          WHEN 'failure' THEN o.state = 'failed' AND NOT d.goes_on
          ELSE o.state = 'succeeded' AND (d.kind <> 'decision' OR bugle.is_chosen(bugle.output_of(o.run, o.no), child.name)) OR o.state = 'failed' AND d.goes_on
        END)::smallint AS satisfied
      FROM unnest(runs, nos, states) AS o (run, no, state)
      JOIN bugle.run r ON r.id = o.run
      JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = o.no
      JOIN bugle.definition_edge e ON e.definition = r.definition AND e.from_no = o.no
      JOIN bugle.definition_step child ON child.definition = r.definition AND child.no = e.to_no
      GROUP BY o.run, e.to_no
    ), moved AS (
      UPDATE bugle.step s
      SET parents_left = s.parents_left - e.n, satisfied = s.satisfied + e.satisfied,
        state = CASE
          WHEN s.state <> 'pending' OR s.parents_left > e.n THEN s.state
          WHEN NOT (CASE WHEN d.any_parent THEN s.satisfied + e.satisfied > 0 ELSE s.satisfied + e.satisfied = d.parents END) THEN 'skipped'
          WHEN r.paused OR d.kind IN ('sleep', 'signal', 'map') THEN 'waiting'
          ELSE 'ready' END,
        why = CASE
          WHEN s.state <> 'pending' OR s.parents_left > e.n THEN s.why
          WHEN NOT (CASE WHEN d.any_parent THEN s.satisfied + e.satisfied > 0 ELSE s.satisfied + e.satisfied = d.parents END) THEN 'parents'
          WHEN r.paused THEN 'paused'
          WHEN d.kind IN ('sleep', 'signal', 'map') THEN d.kind END,
        due_at = CASE WHEN s.state = 'pending' AND s.parents_left = e.n THEN p_moment + coalesce(d.sleep, d.signal_timeout) END,
        since = CASE WHEN s.state = 'pending' AND s.parents_left = e.n THEN p_moment ELSE s.since END
      FROM edge e
      JOIN bugle.run r ON r.id = e.run
      JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = e.no
      WHERE s.run = e.run AND s.no = e.no AND s.idx = 0
      RETURNING s.run, s.no, s.epoch, s.state, s.why, s.due_at, s.since = p_moment AS is_moved
    ), logged AS (
      INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, why, due_at)
      SELECT p_moment, v.run, v.no, 0, v.epoch, 'parents', 'pending', v.state, v.why, v.due_at FROM moved v WHERE v.is_moved AND v.state <> 'pending'
    )
    SELECT coalesce(array_agg(v.run) FILTER (WHERE v.state = 'skipped'), '{}') AS skipped_run, coalesce(array_agg(v.no) FILTER (WHERE v.state = 'skipped'), '{}') AS skipped_no,
      array_agg(v.run) FILTER (WHERE v.goes) AS run, array_agg(v.no) FILTER (WHERE v.goes) AS no, array_agg(v.epoch) FILTER (WHERE v.goes) AS epoch
    INTO m
    FROM (SELECT *, state = 'ready' OR state = 'waiting' AND why <> 'paused' AS goes FROM moved WHERE is_moved) v;
    runs := m.skipped_run;
    nos := m.skipped_no;
    states := array_fill('skipped'::text, ARRAY[cardinality(runs)]);
    IF m.run IS NOT NULL THEN
      FOR at_once IN SELECT * FROM bugle.hand_over(m.run, m.no, m.epoch, p_moment) LOOP
        runs := runs || at_once.run;
        nos := nos || at_once.no;
        states := states || at_once.state;
      END LOOP;
    END IF;
    all_runs := all_runs || runs;
    all_nos := all_nos || nos;
    all_states := all_states || states;
  END LOOP;
  PERFORM bugle.count_down(all_runs, all_nos, all_states, p_moment);
END $$;

-- Counts steps that have ended down for their runs, and ends those of which nothing is left.
CREATE FUNCTION bugle.count_down(p_run bigint[], p_no smallint[], p_state text[], p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  over record;
BEGIN
  FOR over IN
    UPDATE bugle.run r
    SET steps_left = r.steps_left - c.n, failed = r.failed + c.failed
    FROM (
      SELECT o.run, count(*)::int AS n, (count(*) FILTER (WHERE o.state = 'failed' AND NOT d.goes_on AND NOT d.seen_to))::int AS failed
      FROM unnest(p_run, p_no, p_state) AS o (run, no, state)
      JOIN bugle.run k ON k.id = o.run
      JOIN bugle.definition_step d ON d.definition = k.definition AND d.no = o.no
      GROUP BY o.run
    ) c
    WHERE r.id = c.run
    RETURNING r.id, r.steps_left, r.failed
  LOOP
    IF over.steps_left = 0 THEN
      PERFORM bugle.end_run(over.id, CASE WHEN over.failed > 0 THEN 'failed' ELSE 'succeeded' END, 'end', NULL, NULL, p_moment);
    END IF;
  END LOOP;
END $$;

-- Ends a run, and tells whoever waits for that. What has ended is not paused: there is nothing left to hold back, or to resume.
CREATE FUNCTION bugle.end_run(p_run bigint, p_state text, p_cause text, p_actor text, p_why text, p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  was text;
  space int;
BEGIN
  SELECT state, namespace INTO STRICT was, space FROM bugle.run WHERE id = p_run;
  UPDATE bugle.run SET state = p_state, ended_at = p_moment, paused = false WHERE id = p_run;
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor, why)
  VALUES (p_moment, p_run, 0, 0, 0, p_cause, was, p_state, p_actor, p_why);
  INSERT INTO bugle.ended (queue, state, ids)
  SELECT f.engine, CASE p_state WHEN 'succeeded' THEN 'done' WHEN 'failed' THEN 'dead' ELSE p_state END, ARRAY[p_run] FROM bugle.flow f WHERE f.namespace = space;
END $$;
