-- How nodes run the workflows of a namespace: settings that are inherited, the wake mode of all its queues, its pause.

-- What is NULL is inherited: from the row of all namespaces (number 0), and where that says nothing from the options of each node.
CREATE TABLE bugle.flow_setting (
  namespace int PRIMARY KEY,
  slots_least int CHECK (slots_least BETWEEN 1 AND 1000),              -- of a node, for this namespace alone
  slots_most int CHECK (slots_most BETWEEN 1 AND 1000),
  steps_most int CHECK (steps_most BETWEEN 1 AND 100000),              -- that run at once, on all nodes together
  stale_after interval CHECK (stale_after BETWEEN interval '100 milliseconds' AND interval '1 day'),   -- ready for longer and unclaimed is an alarm
  mode text CHECK (mode IN ('hybrid', 'event_driven_only', 'polling_only', 'shadow')),
  poll_interval interval,
  paused boolean
);
INSERT INTO bugle.flow_setting (namespace) VALUES (0);

-- The settings that hold for each namespace that has workflows.
CREATE VIEW bugle.flow_effective AS
SELECT n.id AS namespace, n.name, f.engine,
  coalesce(own.slots_least, common.slots_least) AS slots_least,
  coalesce(own.slots_most, common.slots_most) AS slots_most,
  coalesce(own.steps_most, common.steps_most) AS steps_most,
  coalesce(own.stale_after, common.stale_after) AS stale_after,
  coalesce(own.mode, common.mode, 'hybrid') AS mode,
  CASE WHEN own.mode IS NULL THEN common.poll_interval ELSE own.poll_interval END AS poll_interval,
  coalesce(own.paused, common.paused, false) AS paused
FROM bugle.flow f
JOIN bugle.namespace n ON n.id = f.namespace
JOIN bugle.flow_setting common ON common.namespace = 0
LEFT JOIN bugle.flow_setting own ON own.namespace = f.namespace;

-- The number of a namespace, 0 for NULL: all of them. Whoever changes settings does so alone, from this call to the end of the transaction, and
-- no queue is made meanwhile (inherit_settings): none would be left out.
CREATE FUNCTION bugle.setting_of(p_namespace text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := 0;
BEGIN
  PERFORM FROM bugle.flow_setting WHERE namespace = 0 FOR UPDATE;
  IF p_namespace IS NOT NULL THEN
    SELECT id INTO number FROM bugle.namespace WHERE name = p_namespace;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'namespace "%" does not exist', left(p_namespace, 80)
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Make it with SELECT bugle.declare_namespace(name), or list them with bugle namespace ls.';
    END IF;
    INSERT INTO bugle.flow_setting (namespace) VALUES (number) ON CONFLICT DO NOTHING;
  END IF;
  RETURN number;
END $$;

-- Sets what p_settings names: slots_least, slots_most, steps_most, stale_after_ms; null: inherit it again. p_namespace NULL: for all that say nothing themselves.
CREATE FUNCTION bugle.set_flow(p_settings jsonb, p_namespace text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.setting_of(p_namespace);
  stranger text;
BEGIN
  SELECT k INTO stranger FROM jsonb_object_keys(p_settings) AS k WHERE k NOT IN ('slots_least', 'slots_most', 'steps_most', 'stale_after_ms');
  IF FOUND THEN
    RAISE EXCEPTION 'setting "%" does not exist', left(stranger, 80)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'There are slots_least, slots_most, steps_most and stale_after_ms; mode and pause have functions of their own.';
  END IF;
  UPDATE bugle.flow_setting s SET
    slots_least = CASE WHEN p_settings ? 'slots_least' THEN (p_settings->>'slots_least')::int ELSE s.slots_least END,
    slots_most = CASE WHEN p_settings ? 'slots_most' THEN (p_settings->>'slots_most')::int ELSE s.slots_most END,
    steps_most = CASE WHEN p_settings ? 'steps_most' THEN (p_settings->>'steps_most')::int ELSE s.steps_most END,
    stale_after = CASE WHEN p_settings ? 'stale_after_ms' THEN bugle.ms(nullif(p_settings->'stale_after_ms', 'null')) ELSE s.stale_after END
  WHERE s.namespace = number;
  PERFORM bugle.limit_steps();
  PERFORM bugle.ring_control();
EXCEPTION WHEN check_violation THEN
  RAISE EXCEPTION 'settings are %', left(p_settings::text, 200)
    USING ERRCODE = 'invalid_parameter_value', HINT = 'slots_least and slots_most are 1 to 1000, steps_most 1 to 100000, stale_after_ms 100 to 86400000.';
END $$;

-- Sets how the waiters of all queues of a namespace's workflows are woken. p_mode NULL: inherit it again. p_namespace NULL: of all
-- namespaces that say nothing themselves.
CREATE FUNCTION bugle.set_flow_mode(p_mode text, p_poll_interval interval DEFAULT NULL, p_namespace text DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.setting_of(p_namespace);
  changed int;
BEGIN
  IF p_mode NOT IN ('hybrid', 'event_driven_only', 'polling_only', 'shadow') THEN
    RAISE EXCEPTION 'mode is "%"; there are hybrid, event_driven_only, polling_only and shadow', left(p_mode, 80)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Use hybrid unless you know better.';
  ELSIF p_poll_interval NOT BETWEEN interval '1 millisecond' AND interval '1 day' THEN
    RAISE EXCEPTION 'poll interval is %; allowed are 1 millisecond to 1 day', p_poll_interval
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for that of the node''s options.';
  END IF;
  UPDATE bugle.flow_setting SET mode = p_mode, poll_interval = p_poll_interval WHERE namespace = number;
  UPDATE bugle.queue q SET mode = e.mode, poll_interval = e.poll_interval
  FROM bugle.flow_effective e
  WHERE q.namespace = e.namespace AND q.holds = 'steps' AND (q.mode, q.poll_interval) IS DISTINCT FROM (e.mode, e.poll_interval);
  GET DIAGNOSTICS changed = ROW_COUNT;
  PERFORM bugle.ring_control();
  RETURN changed;
END $$;

-- From the moment that this has committed no step of the namespace begins; those that run go on. Resuming wakes who sleeps for them. What
-- Bugle does itself goes on: a sleep that is over, a deadline. p_namespace NULL: all that say nothing themselves. Returns how many queues changed.
CREATE FUNCTION bugle.pause_flow(p_paused boolean, p_namespace text DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.setting_of(p_namespace);
  r record;
  changed int := 0;
BEGIN
  UPDATE bugle.flow_setting SET paused = p_paused WHERE namespace = number;
  FOR r IN   -- in one order, for each is locked
    SELECT q.id, q.name, e.paused
    FROM bugle.queue q
    JOIN bugle.flow_effective e ON e.namespace = q.namespace AND e.engine <> q.id
    WHERE q.holds = 'steps' ORDER BY q.id
  LOOP
    changed := changed + bugle.set_queue_paused(r.id, r.name, r.paused)::int;
  END LOOP;
  RETURN changed;
END $$;

-- A queue of steps that is new is woken, paused and limited as those of its namespace are.
CREATE FUNCTION bugle.inherit_settings(p_number int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  e bugle.flow_effective;
  q bugle.queue;
BEGIN
  PERFORM FROM bugle.flow_setting WHERE namespace = 0 FOR SHARE;   -- after whoever changes a setting, or before him
  SELECT * INTO q FROM bugle.queue WHERE id = p_number;
  SELECT * INTO e FROM bugle.flow_effective WHERE namespace = q.namespace;
  IF NOT FOUND THEN   -- it is the engine's, which comes before the namespace has workflows
    RETURN;
  END IF;
  IF (q.mode, q.poll_interval) IS DISTINCT FROM (e.mode, e.poll_interval) THEN
    UPDATE bugle.queue SET mode = e.mode, poll_interval = e.poll_interval WHERE id = p_number;
    PERFORM bugle.ring_control();
  END IF;
  IF e.engine = p_number THEN   -- the namespace is new
    PERFORM bugle.limit_steps();
    PERFORM bugle.route_steps(e.namespace, e.name);
    RETURN;
  END IF;
  UPDATE bugle.queue o SET claim_limit = f.claim_limit FROM bugle.flow f WHERE o.id = p_number AND f.namespace = e.namespace AND f.claim_limit IS NOT NULL;
  UPDATE bugle.cursor c SET paused = e.paused, claim_limit = k.claim_limit   -- nobody has used it yet
  FROM bugle.queue k WHERE c.queue = p_number AND k.id = p_number AND (e.paused OR k.claim_limit IS NOT NULL);
END $$;
