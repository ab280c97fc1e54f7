-- What keeps the steps of a namespace within a limit, and what chooses the worker set of steps whose definition names none.

-- Has every namespace the limit that its settings say? Makes it so, and wakes whoever may claim now. A part of what changes settings.
CREATE FUNCTION bugle.limit_steps() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  e record;
  q record;
  c bugle.cursor;
  number int;
BEGIN
  FOR e IN
    SELECT w.namespace, w.engine, w.steps_most, f.claim_limit
    FROM bugle.flow_effective w
    JOIN bugle.flow f ON f.namespace = w.namespace
    LEFT JOIN bugle.claim_limit m ON m.id = f.claim_limit
    WHERE w.steps_most IS DISTINCT FROM m.most
    ORDER BY w.namespace
  LOOP
    number := e.claim_limit;
    IF number IS NOT NULL AND e.steps_most IS NOT NULL THEN
      UPDATE bugle.claim_limit SET most = e.steps_most WHERE id = number;
    ELSE
      IF number IS NULL THEN
        INSERT INTO bugle.claim_limit (most) VALUES (e.steps_most) RETURNING id INTO number;
      ELSE
        number := NULL;
      END IF;
      FOR q IN SELECT id, name FROM bugle.queue WHERE namespace = e.namespace AND holds = 'steps' AND id <> e.engine ORDER BY id LOOP
        c := bugle.lock_cursor(q.id, q.name);
        INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused, claim_limit)
        VALUES (c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, c.paused, number);
        UPDATE bugle.queue SET claim_limit = number WHERE id = q.id;
      END LOOP;
      UPDATE bugle.flow SET claim_limit = number WHERE namespace = e.namespace;
      DELETE FROM bugle.claim_limit WHERE id = e.claim_limit AND number IS NULL;
    END IF;
    PERFORM bugle.check_bell(k.id) FROM bugle.queue k WHERE k.namespace = e.namespace AND k.holds = 'steps' AND k.id <> e.engine;
  END LOOP;
END $$;

-- The rules, in the order in which they are asked: the first that fits decides.
CREATE TABLE bugle.flow_route (
  place int PRIMARY KEY,
  pattern text COLLATE "C" NOT NULL,                                   -- of a namespace's name; * stands for anything
  priority smallint CHECK (priority BETWEEN 0 AND 3),                  -- of steps with this priority or a more urgent one; NULL: of all
  queue text COLLATE "C" NOT NULL                                      -- the worker set
);

-- What they come to for each namespace. No row: the definition's own queue.
CREATE TABLE bugle.flow_routed (
  namespace int NOT NULL,
  lane smallint NOT NULL,
  queue int NOT NULL,
  PRIMARY KEY (namespace, lane)
);

-- Does a name fit a pattern, in which * stands for anything?
CREATE FUNCTION bugle.fits(p_name text, p_pattern text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_name LIKE replace(replace(replace(replace(p_pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%');

-- Works out the rules for one namespace, and makes the queues to which they lead.
CREATE FUNCTION bugle.route_steps(p_namespace int, p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bugle.flow_routed WHERE namespace = p_namespace;
  INSERT INTO bugle.flow_routed (namespace, lane, queue)
  SELECT p_namespace, lane, bugle.declare_step_queue(first.queue, p_name)
  FROM generate_series(0, 3) AS lane
  CROSS JOIN LATERAL (
    SELECT r.queue FROM bugle.flow_route r WHERE bugle.fits(p_name, r.pattern) AND (r.priority IS NULL OR lane <= r.priority) ORDER BY r.place LIMIT 1
  ) first;
END $$;

-- Puts these rules in the place of those that were: a list of {"namespace": pattern, "priority": 0 to 3 or null, "queue": worker set}. For steps
-- that become ready from now on.
CREATE FUNCTION bugle.set_routes(p_routes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  wrong jsonb;
  e record;
BEGIN
  SELECT r INTO wrong FROM jsonb_array_elements(p_routes) AS r
  WHERE coalesce(r->>'namespace', '') = '' OR coalesce(r->>'queue', '') IN ('', 'flow engine') OR coalesce(r->'priority', 'null') NOT IN ('null', '0', '1', '2', '3') LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a rule is %', left(wrong::text, 200)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give namespace (a pattern), queue (a worker set) and priority (0 to 3, or null for all).';
  END IF;
  PERFORM bugle.setting_of(NULL);
  DELETE FROM bugle.flow_route;
  INSERT INTO bugle.flow_route (place, pattern, priority, queue)
  SELECT r.place, r.rule->>'namespace', (r.rule->>'priority')::smallint, r.rule->>'queue' FROM jsonb_array_elements(p_routes) WITH ORDINALITY AS r (rule, place);
  FOR e IN SELECT namespace, name FROM bugle.flow_effective ORDER BY namespace LOOP
    PERFORM bugle.route_steps(e.namespace, e.name);
  END LOOP;
END $$;
