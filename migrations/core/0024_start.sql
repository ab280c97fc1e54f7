-- How a run begins: it is started, and workers begin its steps.

-- Starts a run of the newest version (or of p_version) and returns its number, inside the caller's transaction. With a key that another run of
-- this definition has, that run's number, and nothing is written: by p_key, or by the input where the definition says strict.
CREATE FUNCTION bugle.start_run(
  definition text,
  input jsonb DEFAULT 'null',
  key text DEFAULT NULL,
  key_window interval DEFAULT '24 hours',
  version int DEFAULT NULL,
  priority int DEFAULT NULL,
  tags jsonb DEFAULT NULL,
  namespace text DEFAULT 'default',
  actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  a_definition ALIAS FOR definition; a_input ALIAS FOR input; a_key ALIAS FOR key; a_window ALIAS FOR key_window; a_version ALIAS FOR version;
  a_priority ALIAS FOR priority; a_tags ALIAS FOR tags; a_namespace ALIAS FOR namespace; a_actor ALIAS FOR actor;
  d bugle.definition;
  new_id bigint := nextval('bugle.job_id');
  old_id bigint;
  moment timestamptz := clock_timestamp();
  its_key text := a_key;
BEGIN
  SELECT f.* INTO d FROM bugle.definition f JOIN bugle.namespace n ON n.id = f.namespace
  WHERE n.name = a_namespace AND f.name = a_definition AND (a_version IS NULL OR f.version = a_version)
  ORDER BY f.version DESC LIMIT 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'definition "%"% does not exist in namespace "%"', left(a_definition, 80), coalesce(' version ' || a_version, ''), left(a_namespace, 80)
      USING ERRCODE = 'BGL11', HINT = 'Define it with bugle flow define FILE, or list what there is with bugle flow defs.';
  END IF;
  PERFORM bugle.check_start(d, a_input, a_key, a_window, a_priority, a_tags);
  IF d.identity = 'strict' AND its_key IS NULL THEN
    its_key := 'input ' || encode(sha256(a_input::text::bytea), 'hex');
  END IF;
  IF its_key IS NOT NULL THEN
    old_id := bugle.take_key((SELECT f.engine FROM bugle.flow f WHERE f.namespace = d.namespace), d.name || E'\n' || its_key, new_id, a_window);
    IF old_id IS NOT NULL THEN
      RETURN old_id;
    END IF;
  END IF;
  INSERT INTO bugle.run (id, namespace, definition, steps_left, lane, key, tags, created_at, ends_by)
  VALUES (new_id, d.namespace, d.id, d.steps, a_priority, its_key, a_tags, moment, moment + d.deadline);
  INSERT INTO bugle.flow_value (run, no, idx, epoch, value) VALUES (new_id, 0, 0, 1, a_input);
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, to_state, actor) VALUES (moment, new_id, 0, 0, 0, 'start', 'queued', a_actor);
  IF d.deadline IS NOT NULL THEN
    PERFORM bugle.remind(d.namespace, 'end_run', moment + d.deadline, new_id, 0::smallint, 1);
  END IF;
  PERFORM bugle.make_steps(new_id, d.id, moment);
  RETURN new_id;
END $$;

-- Refuses what a start may not have.
CREATE FUNCTION bugle.check_start(d bugle.definition, p_input jsonb, p_key text, p_window interval, p_priority int, p_tags jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  fault text;
  next_step text;
BEGIN
  IF d.identity = 'key' AND p_key IS NULL THEN
    fault := format('definition "%s" wants a key for each run', d.name);
    next_step := 'Give a key: the same one again finds the same run.';
  ELSIF octet_length(p_key) NOT BETWEEN 1 AND 255 OR p_key ~ '[[:cntrl:]]' THEN
    fault := format('key is %s bytes long; allowed are 1 to 255 bytes without control characters', octet_length(p_key));
    next_step := 'Use a shorter key, such as a hash of this one.';
  ELSIF p_priority NOT BETWEEN 0 AND 3 THEN
    fault := format('priority is %s; allowed are 0 (first) to 3 (last)', p_priority);
    next_step := 'Leave it out: each step then has its own.';
  ELSIF p_window IS NULL OR p_window <= interval '0' OR extract(epoch FROM p_window) > 3155760000 THEN
    fault := format('key_window is %s; it must be longer than nothing and at most 100 years', coalesce(p_window::text, 'NULL'));
    next_step := 'Leave it out for the default, 24 hours.';
  ELSIF p_input IS NULL THEN
    fault := 'input is NULL';
    next_step := 'Use the JSON value null for a run without input.';
  ELSIF octet_length(p_input::text) > 262144 THEN
    fault := format('input is %s bytes long; allowed are at most 262144', octet_length(p_input::text));
    next_step := 'Store the data elsewhere and start the run with a reference to it.';
  ELSIF jsonb_typeof(p_tags) <> 'object' OR octet_length(p_tags::text) > 4096 THEN
    fault := format('tags are of type %s and %s bytes long; allowed is an object of at most 4096 bytes', jsonb_typeof(p_tags), octet_length(p_tags::text));
    next_step := 'Use a few short tags: data belongs into the input.';
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value', HINT = next_step;
  END IF;
END $$;

-- The steps of a new run, those without parents handed over.
CREATE FUNCTION bugle.make_steps(p_run bigint, p_definition int, p_moment timestamptz) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  roots record;
  at_once record;
BEGIN
  WITH made AS (
    INSERT INTO bugle.step (run, no, state, parents_left, since, why, due_at)
    SELECT p_run, d.no, CASE WHEN d.parents > 0 THEN 'pending' WHEN d.kind IN ('sleep', 'signal', 'map') THEN 'waiting' ELSE 'ready' END, d.parents, p_moment,
      CASE WHEN d.parents = 0 AND d.kind IN ('sleep', 'signal', 'map') THEN d.kind END,
      CASE WHEN d.parents = 0 THEN p_moment + coalesce(d.sleep, d.signal_timeout) END
    FROM bugle.definition_step d
    WHERE d.definition = p_definition
    RETURNING no, epoch, state, why, due_at
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, to_state, why, due_at)
    SELECT p_moment, p_run, m.no, 0, m.epoch, 'start', m.state, m.why, m.due_at FROM made m
  )
  SELECT array_agg(p_run) AS run, array_agg(m.no) AS no, array_agg(m.epoch) AS epoch INTO roots FROM made m WHERE m.state <> 'pending';
  FOR at_once IN SELECT * FROM bugle.hand_over(roots.run, roots.no, roots.epoch, p_moment) LOOP   -- a map of nothing
    PERFORM bugle.go_on(ARRAY[at_once.run], ARRAY[at_once.no], ARRAY[at_once.state], p_moment);
  END LOOP;
END $$;

-- Says that worker p_worker begins steps, whose jobs it has claimed under tokens, and tells what they need. Each by its place among the
-- arguments; verdict 'run', 'lost' (attempts are used up: the one before it never came back), 'paused', or 'gone': the step is none of this job's any more, and the job
-- has only to be ended. Not flushed, as a claim is not: what is forgotten was never begun.
CREATE FUNCTION bugle.begin_steps(p_run bigint[], p_no smallint[], p_idx int[], p_epoch int[], p_attempt smallint[], p_token bigint[], p_worker text)
RETURNS TABLE (
  n int, verdict text, step text, definition text, version int, created_at timestamptz, attempts smallint, timeout_ms bigint,
  input jsonb, parents jsonb, element jsonb, checkpoint jsonb, ready_us bigint
) LANGUAGE plpgsql
-- Somebody's open transaction may hold a run; the others of the call are not to wait for it.
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH begun AS (
    UPDATE bugle.run r SET state = 'running', started_at = moment
    WHERE r.id = ANY (ARRAY(SELECT k.id FROM bugle.run k WHERE k.id = ANY (p_run) AND k.state = 'queued' AND NOT k.paused ORDER BY k.id FOR NO KEY UPDATE))
    RETURNING r.id
  )
  INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, actor)
  SELECT moment, b.id, 0, 0, 0, 'claim', 'queued', 'running', p_worker FROM begun b;
  -- In the order of their keys, as everybody locks them, and in a statement of its own: the next one sees what others did until then. In one, a step
  -- that was changed meanwhile would be taken for one that is not there, and its job ended for it.
  PERFORM 1 FROM unnest(p_run, p_no, p_idx) AS u (run, no, idx) JOIN bugle.step o ON o.run = u.run AND o.no = u.no AND o.idx = u.idx
  ORDER BY o.run, o.no, o.idx FOR NO KEY UPDATE OF o;
  RETURN QUERY
  WITH asked AS (
    SELECT u.*, r.paused, d.*
    FROM (SELECT u.n::int, u.run, u.no AS step_no, u.idx, u.epoch, u.attempt, u.token FROM unnest(p_run, p_no, p_idx, p_epoch, p_attempt, p_token) WITH ORDINALITY AS u (run, no, idx, epoch, attempt, token, n)) u
    JOIN bugle.run r ON r.id = u.run
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = u.step_no
  ), begun AS (
    UPDATE bugle.step s
    SET state = CASE WHEN a.paused THEN 'waiting' WHEN a.attempt > a.attempts THEN s.state ELSE 'running' END,
      why = CASE WHEN a.paused THEN 'paused' WHEN a.attempt > a.attempts THEN s.why END,
      attempt = a.attempt, token = a.token, worker = p_worker, since = moment, due_at = NULL,
      epoch = s.epoch + CASE WHEN a.paused THEN 1 ELSE 0 END   -- its job goes; another one carries it when it is resumed
    FROM asked a
    CROSS JOIN LATERAL (
      SELECT o.state, o.since FROM bugle.step o
      WHERE o.run = a.run AND o.no = a.step_no AND o.idx = a.idx AND o.epoch = a.epoch AND o.state IN ('ready', 'running', 'waiting') AND o.why IS DISTINCT FROM 'paused'
        -- Whoever has lost the lease begins nothing: somebody else has the step, or will have.
        AND EXISTS (SELECT FROM bugle.lease l WHERE l.token = a.token OFFSET 0)
    ) was
    WHERE s.run = a.run AND s.no = a.step_no AND s.idx = a.idx
    RETURNING a.n, was.state AS was, was.since AS was_since, s.state, s.checkpoint, s.run, s.no, s.idx, s.epoch, s.attempt, a.paused OR a.attempt <= a.attempts AS is_moved
  ), logged AS (
    INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why)
    SELECT moment, b.run, b.no, b.idx, b.epoch, CASE b.state WHEN 'running' THEN 'claim' ELSE 'pause' END, b.was, b.state, b.attempt, p_worker, CASE b.state WHEN 'waiting' THEN 'paused' END
    FROM begun b WHERE b.is_moved
  )
  SELECT a.n, CASE WHEN b.n IS NULL THEN 'gone' WHEN a.paused THEN 'paused' WHEN a.attempt > a.attempts THEN 'lost' ELSE 'run' END,
    a.name::text, f.name::text, f.version, r.created_at, a.attempts, (extract(epoch FROM a.timeout) * 1000)::bigint,
    CASE WHEN b.state = 'running' THEN bugle.output_of(a.run, 0::smallint) END,
    CASE WHEN b.state = 'running' THEN (
      SELECT jsonb_object_agg(p.name, bugle.output_of(a.run, e.from_no))
      FROM bugle.definition_edge e
      JOIN bugle.definition_step p ON p.definition = e.definition AND p.no = e.from_no
      JOIN bugle.step ps ON ps.run = a.run AND ps.no = e.from_no AND ps.idx = 0 AND ps.state = 'succeeded'
      WHERE e.definition = a.definition AND e.to_no = a.step_no) END,
    CASE WHEN b.state = 'running' AND a.idx > 0 THEN (bugle.output_of(a.run, coalesce(a.over_no, 0::smallint)) #> a.over_at) -> (a.idx - 1) END,
    b.checkpoint,
    -- A step that a limit held back is not stale, and nobody knows for how long it did.
    CASE WHEN b.was = 'ready' AND (SELECT w.claim_limit FROM bugle.flow w WHERE w.namespace = r.namespace) IS NULL THEN (extract(epoch FROM moment - b.was_since) * 1000000)::bigint END
  FROM asked a
  JOIN bugle.run r ON r.id = a.run
  JOIN bugle.definition f ON f.id = r.definition
  LEFT JOIN begun b ON b.n = a.n;
END $$;
