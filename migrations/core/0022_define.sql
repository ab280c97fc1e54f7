-- Definitions. What a definition may be is checked where it is written (crates/bugle/src/flow/definition); here stands what SQL alone can know.

-- Makes a namespace ready for workflows; the number of the engine's queue. A namespace is never made by using it.
CREATE FUNCTION bugle.declare_flow(p_namespace text DEFAULT 'default') RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  space int;
  number int;
BEGIN
  SELECT n.id, f.engine INTO space, number FROM bugle.namespace n LEFT JOIN bugle.flow f ON f.namespace = n.id WHERE n.name = p_namespace;
  IF number IS NOT NULL THEN
    RETURN number;
  END IF;
  number := bugle.declare_step_queue('flow engine', p_namespace);
  INSERT INTO bugle.flow (namespace, engine) SELECT q.namespace, number FROM bugle.queue q WHERE q.id = number ON CONFLICT DO NOTHING;
  PERFORM bugle.inherit_settings(number);
  PERFORM bugle.ring_control();   -- nodes serve it from now on
  RETURN number;
END $$;

-- The number of a queue of steps, made on first use. It keeps no history of jobs: the steps tell.
CREATE FUNCTION bugle.declare_step_queue(p_queue text, p_namespace text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.declare_queue(p_queue, p_namespace, 'steps');
BEGIN
  UPDATE bugle.queue SET history = false WHERE id = number AND history;
  IF FOUND THEN   -- it is new
    PERFORM bugle.inherit_settings(number);
    PERFORM bugle.ring_control();   -- nodes serve it from now on
  END IF;
  RETURN number;
END $$;

-- An interval of so many milliseconds; NULL of none.
CREATE FUNCTION bugle.ms(p_ms jsonb) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_ms::text::numeric * interval '1 millisecond';

-- Defines a workflow from its canonical form and returns its version. The newest version again when nothing differs from it; a version that
-- is there with another content is refused.
CREATE FUNCTION bugle.define(p_spec jsonb, p_hash bytea, p_namespace text DEFAULT 'default') RETURNS TABLE (definition int, version int, is_new boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  space int;
  wanted int := (p_spec->>'version')::int;
  newest bugle.definition;
  number int;
BEGIN
  PERFORM bugle.declare_flow(p_namespace);
  SELECT id INTO STRICT space FROM bugle.namespace WHERE name = p_namespace;
  -- Two who define the same name at once: one after the other.
  PERFORM pg_advisory_xact_lock(bugle.define_class(), hashtext(space || ' ' || (p_spec->>'name')));
  SELECT * INTO newest FROM bugle.definition d
  WHERE d.namespace = space AND d.name = p_spec->>'name' AND (wanted IS NULL OR d.version = wanted)
  ORDER BY d.version DESC LIMIT 1;
  IF newest.hash = p_hash THEN
    RETURN QUERY SELECT newest.id, newest.version, false;
    RETURN;
  ELSIF newest.version = wanted THEN
    RAISE EXCEPTION 'definition "%" has a version % already, and it is another one', p_spec->>'name', wanted
      USING ERRCODE = 'BGL10', HINT = 'Leave the version out for the next one: a version never changes, because runs go by it.';
  END IF;
  INSERT INTO bugle.definition (namespace, name, version, identity, deadline, steps, spec, hash)
  VALUES (space, p_spec->>'name', coalesce(wanted, newest.version + 1, 1), p_spec->>'identity', bugle.ms(p_spec->'deadline_ms'), jsonb_array_length(p_spec->'steps'), p_spec, p_hash)
  RETURNING id, definition.version INTO number, wanted;
  PERFORM bugle.define_steps(number, p_spec->'steps', p_namespace);
  RETURN QUERY SELECT number, wanted, true;
END $$;

CREATE FUNCTION bugle.define_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.define'::bytea), 'hex'), 8))::bit(32)::int;

-- Reads the steps of a canonical form into the tables that settlements go by.
CREATE FUNCTION bugle.define_steps(p_definition int, p_steps jsonb, p_namespace text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.definition_step (definition, no, name, kind, handler, queue, is_routed, lane, attempts, extra, parents, any_parent, goes_on, seen_to, timeout, deadline,
    sleep, signal_key, signal_timeout, over_no, over_at, at_once, events)
  SELECT p_definition, (s->>'no')::smallint, s->>'name', s->>'kind', coalesce(s->>'handler', s->>'name'),
    CASE WHEN s->>'kind' IN ('sleep', 'signal') THEN bugle.declare_flow(p_namespace) ELSE bugle.declare_step_queue(s->>'queue', p_namespace) END,
    s->>'kind' NOT IN ('sleep', 'signal') AND s->>'queue' = 'steps',
    (s->>'priority')::smallint, (s->>'attempts')::smallint,
    CASE WHEN s ? 'backoff' THEN jsonb_build_object('retry', s->'backoff') END,
    jsonb_array_length(s->'after'), s->>'join' = 'any', s->>'on_failure' = 'continue',
    EXISTS (
      SELECT FROM jsonb_array_elements(p_steps) AS c CROSS JOIN jsonb_array_elements(c->'after') AS e
      WHERE e->>'no' = s->>'no' AND e->>'on' = 'failure'),
    bugle.ms(s->'timeout_ms'), bugle.ms(s->'deadline_ms'), bugle.ms(s->'sleep_ms'), s->'signal'->>'key', bugle.ms(s->'signal'->'timeout_ms'),
    (s->'over'->>'no')::smallint, bugle.pointer(s->'over'->>'at'), (s->>'concurrency')::int, s->'events'
  FROM jsonb_array_elements(p_steps) AS s;
  INSERT INTO bugle.definition_edge (definition, from_no, to_no, on_state)
  SELECT p_definition, (e->>'no')::smallint, (s->>'no')::smallint, e->>'on'
  FROM jsonb_array_elements(p_steps) AS s
  CROSS JOIN jsonb_array_elements(s->'after') AS e;
  PERFORM bugle.declare_event_queues(p_steps, p_namespace);
END $$;

-- Makes the queues to which steps tell their events. One that holds something else is refused now, and not by every settlement later.
CREATE FUNCTION bugle.declare_event_queues(p_steps jsonb, p_namespace text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  told record;
  what text;
BEGIN
  FOR told IN
    SELECT w->>'queue' AS queue, min(s->>'name') AS step FROM jsonb_array_elements(p_steps) AS s CROSS JOIN jsonb_array_elements(s->'events') AS w GROUP BY 1 ORDER BY 1
  LOOP
    SELECT q.holds INTO what FROM bugle.queue q WHERE q.id = bugle.find_queue(p_namespace, told.queue);
    IF what <> 'messages' THEN
      RAISE EXCEPTION 'step "%" tells its events to queue "%", which holds %', told.step, left(told.queue, 80), what
        USING ERRCODE = 'BGL04', HINT = 'Choose another queue: events are messages, and what a queue holds is decided by its first use.';
    END IF;
    PERFORM bugle.declare_queue(told.queue, p_namespace, 'messages');
  END LOOP;
END $$;

-- Refuses to make a queue of something else where definitions tell their events: it was deleted, and the next event makes it again.
CREATE FUNCTION bugle.check_no_events(p_namespace int, p_queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  teller record;
BEGIN
  SELECT f.name, f.version INTO teller
  FROM bugle.definition f JOIN bugle.definition_step d ON d.definition = f.id
  WHERE f.namespace = p_namespace AND d.events @> jsonb_build_array(jsonb_build_object('queue', p_queue))
  ORDER BY f.id DESC LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'queue "%" is for messages: definition "%" version % tells its events to it', left(p_queue, 80), teller.name, teller.version
      USING ERRCODE = 'BGL04', HINT = 'Use another queue.';
  END IF;
END $$;

-- A JSON pointer (RFC 6901) as a path of PostgreSQL's. NULL or empty: the whole.
CREATE FUNCTION bugle.pointer(p_pointer text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(array_agg(replace(replace(part, '~1', '/'), '~0', '~') ORDER BY n), '{}')
  FROM unnest(string_to_array(substr(p_pointer, 2), '/')) WITH ORDINALITY AS u (part, n)
  WHERE p_pointer <> ''
$$;
