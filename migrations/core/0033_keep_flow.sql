-- How long runs are kept. A run that has ended goes after its days, with its steps and values, and its log goes with it: what is still shown can
-- also be shown as it was. One that has not ended loses nothing, however old it is.
-- Any node may call these at any time; whoever holds the sweep's lock does the work, the others do nothing. None waits for a settlement, and
-- every statement changes a bounded number of rows.

ALTER TABLE bugle.meta
  ADD COLUMN run_days int NOT NULL DEFAULT 30 CHECK (run_days BETWEEN 1 AND 3650),                 -- after its end; succeeded or cancelled
  ADD COLUMN failed_run_days int NOT NULL DEFAULT 90 CHECK (failed_run_days BETWEEN 1 AND 3650);   -- somebody may still want to see to it

-- Leads to the runs that have ended, the oldest first.
CREATE INDEX run_ended ON bugle.run (state, ended_at) WHERE ended_at IS NOT NULL;

-- Runs that were removed, and whose steps and values go bit by bit: a map has thousands. Nothing but this finds those rows without their run.
CREATE TABLE bugle.run_gone (
  run bigint PRIMARY KEY
);

-- The events of runs that outlive their day: moved here before the day goes. Their filed_at is -infinity.
CREATE TABLE bugle.flow_event_kept PARTITION OF bugle.flow_event FOR VALUES FROM (MINVALUE) TO ('1970-01-01 00:00:00+00');

INSERT INTO bugle.by_day (name, at) VALUES ('flow_event', 'filed_at');
SELECT bugle.make_partitions(now(), 2);

-- The states in which a run has ended, and when it must have to be removed now.
CREATE FUNCTION bugle.runs_end_by(p_now timestamptz) RETURNS TABLE (state text, before timestamptz) LANGUAGE sql STABLE AS $$
  SELECT v.state, p_now - v.days * interval '24 hours'
  FROM bugle.meta m
  CROSS JOIN LATERAL (VALUES ('succeeded', m.run_days), ('cancelled', m.run_days), ('failed', m.failed_run_days)) AS v (state, days)
$$;

-- Removes ended runs whose days are over, at most p_runs of them, and at most p_rows rows of each table that belong to such. Returns how many rows
-- went: as many as p_runs or more, and there may be others. A run that somebody just restarts is skipped.
CREATE FUNCTION bugle.remove_runs(p_now timestamptz DEFAULT now(), p_runs int DEFAULT 1000, p_rows int DEFAULT 10000) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  old record;
  k bigint;
  taken bigint := 0;
  removed bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.sweep_class(), 1) THEN
    RETURN 0;
  END IF;
  FOR old IN SELECT * FROM bugle.runs_end_by(p_now) LOOP
    EXIT WHEN taken >= p_runs;
    WITH found AS (
      SELECT r.id FROM bugle.run r WHERE r.state = old.state AND r.ended_at < old.before ORDER BY r.ended_at LIMIT p_runs - taken FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM bugle.run r USING found f WHERE r.id = f.id RETURNING r.id, r.namespace, r.definition
    ), waits AS (   -- of one that was cancelled, for a signal that never came
      DELETE FROM bugle.signal_wait w USING gone g JOIN bugle.definition_step d ON d.definition = g.definition AND d.signal_key IS NOT NULL
      WHERE w.namespace = g.namespace AND w.key = replace(d.signal_key, '{run}', g.id::text) AND w.run = g.id
    )
    INSERT INTO bugle.run_gone (run) SELECT g.id FROM gone g;
    GET DIAGNOSTICS k = ROW_COUNT;
    taken := taken + k;
  END LOOP;
  DELETE FROM bugle.step s WHERE s.ctid = ANY (ARRAY(SELECT o.ctid FROM bugle.run_gone g JOIN bugle.step o ON o.run = g.run LIMIT p_rows));
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  DELETE FROM bugle.flow_value v WHERE v.ctid = ANY (ARRAY(SELECT o.ctid FROM bugle.run_gone g JOIN bugle.flow_value o ON o.run = g.run LIMIT p_rows));
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  DELETE FROM bugle.flow_event_kept e WHERE e.ctid = ANY (ARRAY(SELECT o.ctid FROM bugle.run_gone g JOIN bugle.flow_event_kept o ON o.run = g.run LIMIT p_rows));
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  DELETE FROM bugle.run_gone g
  WHERE NOT EXISTS (SELECT FROM bugle.step s WHERE s.run = g.run)
    AND NOT EXISTS (SELECT FROM bugle.flow_value v WHERE v.run = g.run)
    AND NOT EXISTS (SELECT FROM bugle.flow_event_kept e WHERE e.run = g.run);
  RETURN taken + removed;
END $$;

-- The partitions of the log whose days are over, the oldest first, and when each ended. The one for days without a partition is the last.
CREATE FUNCTION bugle.old_flow_days(p_now timestamptz) RETURNS TABLE (part regclass, ended_at timestamptz) LANGUAGE sql STABLE
SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
  SELECT c.oid::regclass, CASE WHEN c.relname ~ '_[0-9]{8}$' THEN to_timestamp(right(c.relname, 8), 'YYYYMMDD') + interval '24 hours' ELSE o.oldest END
  FROM (SELECT bugle.day_start(p_now) - m.run_days * interval '24 hours' AS oldest FROM bugle.meta m) o
  CROSS JOIN pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'bugle.flow_event'::regclass
    AND (c.relname = 'flow_event_default' OR c.relname ~ '_[0-9]{8}$' AND right(c.relname, 8) < to_char(o.oldest, 'YYYYMMDD'))
  ORDER BY c.relname
$$;

-- The places of events in a partition that was used up to p_ended_at and whose runs are still there, at most p_most. No run has an event before it was made.
CREATE FUNCTION bugle.kept_events(p_part regclass, p_ended_at timestamptz, p_most int) RETURNS SETOF tid LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
  RETURN QUERY EXECUTE format(
    'SELECT e.ctid FROM bugle.namespace n JOIN bugle.run r ON r.namespace = n.id AND r.created_at < $1 JOIN %s e ON e.run = r.id AND e.filed_at < $1 LIMIT $2', p_part)
  USING p_ended_at, p_most;
END $$;

-- Moves events of runs that are still there out of partitions whose days are over, at most p_rows. Returns how many.
CREATE FUNCTION bugle.keep_events(p_now timestamptz DEFAULT now(), p_rows int DEFAULT 10000) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  day record;
  k bigint;
  moved bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.sweep_class(), 1) THEN
    RETURN 0;
  END IF;
  FOR day IN SELECT * FROM bugle.old_flow_days(p_now) LOOP
    EXIT WHEN moved >= p_rows;
    EXECUTE format(
      'WITH old AS (
        DELETE FROM %s e WHERE e.ctid = ANY (ARRAY(SELECT bugle.kept_events($1, $2, $3))) RETURNING *
      )
      INSERT INTO bugle.flow_event_kept (filed_at, at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, message, due_at, seq)
      SELECT ''-infinity'', at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, message, due_at, seq FROM old', day.part)
    USING day.part, day.ended_at, (p_rows - moved)::int;
    GET DIAGNOSTICS k = ROW_COUNT;
    moved := moved + k;
  END LOOP;
  RETURN moved;
END $$;

-- Drops the partitions of the log whose days are over; a part of drop_partitions(). Not while a run that should be gone is there, and not one that has
-- events of others: a node's pass has moved those before, in short transactions. Here they are moved as well, for owners who call this by hand.
CREATE FUNCTION bugle.drop_flow_days(p_now timestamptz) RETURNS int LANGUAGE plpgsql
SET lock_timeout = '100ms' AS $$
DECLARE
  day record;
  dropped int := 0;
BEGIN
  IF EXISTS (SELECT FROM bugle.runs_end_by(p_now) o JOIN bugle.run r ON r.state = o.state AND r.ended_at < o.before) THEN
    RETURN 0;
  END IF;
  PERFORM bugle.keep_events(p_now, 100000);
  FOR day IN SELECT * FROM bugle.old_flow_days(p_now) LOOP
    IF day.part = 'bugle.flow_event_default'::regclass THEN
      DELETE FROM bugle.flow_event_default e WHERE e.filed_at < day.ended_at AND NOT EXISTS (SELECT FROM bugle.run r WHERE r.id = e.run);
      CONTINUE;
    END IF;
    BEGIN
      EXECUTE format('LOCK TABLE %s IN SHARE MODE', day.part);   -- nobody writes there, but a transaction that is as old
      IF NOT EXISTS (SELECT FROM bugle.kept_events(day.part, day.ended_at, 1)) THEN
        EXECUTE format('DROP TABLE %s', day.part);
        dropped := dropped + 1;
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      EXIT;   -- one stall is enough for a pass
    END;
  END LOOP;
  RETURN dropped;
END $$;

-- Moving runs to another database (crates/bugle/src/flow/archive). The file has the log and what the log does not say; the tables are worked out from
-- it by whoever reads the file, and written here.

-- Keeps the numbers up to p_last for the runs of a file. Returns the last number that may have been given out before. A little more than that: others
-- take numbers at the same time, and none must come twice.
CREATE FUNCTION bugle.reserve_numbers(p_last bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  given bigint := (SELECT s.last_value FROM bugle.job_id s);
BEGIN
  IF p_last >= given THEN
    PERFORM setval('bugle.job_id', p_last + 100000);
  END IF;
  RETURN given;
END $$;

-- A definition of a file; false: it is there already. Its version is the same here, and refused if that is another's.
CREATE FUNCTION bugle.import_definition(p_namespace text, p_name text, p_version int, p_spec jsonb, p_hash bytea, p_defined_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  space int;
  found_hash bytea;
  number int;
BEGIN
  PERFORM bugle.declare_flow(p_namespace);
  SELECT n.id INTO STRICT space FROM bugle.namespace n WHERE n.name = p_namespace;
  PERFORM pg_advisory_xact_lock(bugle.define_class(), hashtext(space || ' ' || p_name));
  SELECT d.hash INTO found_hash FROM bugle.definition d WHERE d.namespace = space AND d.name = p_name AND d.version = p_version;
  IF found_hash = p_hash THEN
    RETURN false;
  ELSIF found_hash IS NOT NULL THEN
    RAISE EXCEPTION 'definition "%" has a version % already, and it is another one', p_name, p_version
      USING ERRCODE = 'BGL10', HINT = 'Import into another namespace, or into an empty database: runs go by the version that they were started with.';
  END IF;
  INSERT INTO bugle.definition (namespace, name, version, identity, deadline, steps, spec, hash, defined_at)
  VALUES (space, p_name, p_version, p_spec->>'identity', bugle.ms(p_spec->'deadline_ms'), jsonb_array_length(p_spec->'steps'), p_spec, p_hash, p_defined_at)
  RETURNING id INTO number;
  PERFORM bugle.define_steps(number, p_spec->'steps', p_namespace);
  RETURN true;
END $$;

-- Makes the row of a run of a file, as it was when it was started; false: there is a run with its number. p_given: the last number that was given out here before.
CREATE FUNCTION bugle.import_run(p_namespace text, r jsonb, p_given bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  number bigint := (r->>'id')::bigint;
  d bugle.definition;
BEGIN
  IF EXISTS (SELECT FROM bugle.run k WHERE k.id = number) THEN
    RETURN false;
  END IF;
  IF number <= p_given AND (EXISTS (SELECT FROM bugle.due k WHERE k.id = number) OR EXISTS (SELECT FROM bugle.dead k WHERE k.id = number)
    OR EXISTS (SELECT FROM bugle.history k WHERE k.id = number) OR EXISTS (SELECT FROM bugle.job k WHERE k.id = number)) THEN
    RAISE EXCEPTION 'number % of a run is a job''s here', number
      USING ERRCODE = 'BGL14', HINT = 'Import into an empty database: runs and jobs are numbered together, and a run keeps its number.';
  END IF;
  SELECT k.* INTO d FROM bugle.definition k JOIN bugle.namespace n ON n.id = k.namespace
  WHERE n.name = p_namespace AND k.name = r->>'definition' AND k.version = (r->>'version')::int;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'run % goes by definition "%" version %, which the file does not have before it', number, left(r->>'definition', 80), r->>'version'
      USING ERRCODE = 'BGL11', HINT = 'Export it anew: the file has been changed.';
  END IF;
  -- What is left of one that was removed here.
  DELETE FROM bugle.step s WHERE s.run = number;
  DELETE FROM bugle.flow_value v WHERE v.run = number;
  DELETE FROM bugle.flow_event e WHERE e.run = number;
  INSERT INTO bugle.run (id, namespace, definition, steps_left, lane, key, tags, created_at, ends_by)
  VALUES (number, d.namespace, d.id, d.steps, (r->>'lane')::smallint, r->>'key', r->'tags', (r->>'created_at')::timestamptz, (r->>'ends_by')::timestamptz);
  IF (r->>'key_until')::timestamptz > clock_timestamp() THEN
    INSERT INTO bugle.job_key AS k (queue, key, id, until)
    SELECT f.engine, d.name || E'\n' || (r->>'key'), number, (r->>'key_until')::timestamptz FROM bugle.flow f WHERE f.namespace = d.namespace
    ON CONFLICT (queue, key) DO UPDATE SET id = excluded.id, until = excluded.until WHERE k.until <= clock_timestamp() OR k.id = excluded.id;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'key "%" of run % is another run''s here', left(r->>'key', 80), number
        USING ERRCODE = 'BGL14', HINT = 'Import into another namespace, or wait until the key''s window is over.';
    END IF;
  END IF;
  RETURN true;
END $$;

-- The end of a run of a file, when its steps are written: what has become of it, and if it has not ended all that makes it go on: jobs, reminders, waits.
-- p_no, p_epoch, p_at: since when steps have been in somebody's hands, for their deadlines. p_back_*: those that are ready because they were given back, with
-- the attempts that they have used up.
CREATE FUNCTION bugle.import_end(
  p_run bigint, p_state text, p_steps_left int, p_failed int, p_paused boolean, p_started_at timestamptz, p_ended_at timestamptz, p_restarted_at timestamptz,
  p_no smallint[], p_epoch int[], p_at timestamptz[], p_back_no smallint[], p_back_idx int[], p_back_attempt smallint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r bugle.run;
  s record;
BEGIN
  UPDATE bugle.run k SET state = p_state, steps_left = p_steps_left, failed = p_failed, paused = p_paused, started_at = p_started_at, ended_at = p_ended_at
  WHERE k.id = p_run RETURNING * INTO STRICT r;
  IF p_ended_at IS NOT NULL THEN
    RETURN;
  END IF;
  -- A deadline that came while the run had ended, before it was restarted, has come.
  IF r.ends_by > coalesce(p_restarted_at, '-infinity') THEN
    PERFORM bugle.remind(r.namespace, 'end_run', r.ends_by, r.id, 0::smallint, 1);
  END IF;
  PERFORM bugle.import_jobs(r, p_back_no, p_back_idx, p_back_attempt);
  FOR s IN
    SELECT k.no, k.epoch, k.why, k.due_at, d, o.at + d.deadline AS ends_by, k.state
    FROM bugle.step k
    JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = k.no
    LEFT JOIN unnest(p_no, p_epoch, p_at) AS o (no, epoch, at) ON o.no = k.no AND o.epoch = k.epoch
    WHERE k.run = r.id AND k.idx = 0 AND k.state IN ('ready', 'waiting')
  LOOP
    IF s.ends_by IS NOT NULL THEN
      PERFORM bugle.remind(r.namespace, 'end_step', s.ends_by, r.id, s.no, s.epoch);
    END IF;
    IF s.why = 'sleep' THEN
      PERFORM bugle.remind(r.namespace, 'end_sleep', s.due_at, r.id, s.no, s.epoch);
    ELSIF s.why = 'signal' THEN
      PERFORM bugle.await_signal(r, s.d, s.epoch, s.due_at - (s.d).signal_timeout);
    END IF;
  END LOOP;
END $$;

-- The jobs that carry steps of a run of a file: those that are ready, and those that wait for their next attempt.
CREATE FUNCTION bugle.import_jobs(r bugle.run, p_no smallint[], p_idx int[], p_attempt smallint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  FOR number IN
    WITH carried AS (
      SELECT coalesce(t.queue, d.queue) AS queue, coalesce(r.lane, d.lane) AS lane, CASE s.state WHEN 'waiting' THEN s.attempt ELSE coalesce(b.attempt, 0) END AS attempt, s.state, s.due_at, d.handler, d.extra, jsonb_build_array(s.run, s.no, s.idx, s.epoch) AS payload
      FROM bugle.step s
      JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = s.no
      LEFT JOIN bugle.flow_routed t ON d.is_routed AND t.namespace = r.namespace AND t.lane = coalesce(r.lane, d.lane)
      LEFT JOIN unnest(p_no, p_idx, p_attempt) AS b (no, idx, attempt) ON b.no = s.no AND b.idx = s.idx
      WHERE s.run = r.id AND (s.state = 'ready' OR s.state = 'waiting' AND s.why IN ('retry', 'snoozed'))
    ), ready AS (
      INSERT INTO bugle.job (queue, lane, attempt, max_attempts, kind, extra, payload)
      SELECT c.queue, c.lane, c.attempt, 32767, c.handler, c.extra, c.payload FROM carried c WHERE c.state = 'ready'
      RETURNING queue, 1 AS move
    ), later AS (
      INSERT INTO bugle.due (queue, lane, attempt, due_at, max_attempts, kind, extra, payload)
      SELECT c.queue, c.lane, c.attempt, c.due_at, 32767, c.handler, c.extra, c.payload FROM carried c WHERE c.state = 'waiting'
      RETURNING queue, 2 AS move
    )
    INSERT INTO bugle.tally (queue, move, n)
    SELECT m.queue, m.move, count(*) FROM (SELECT * FROM ready UNION ALL SELECT * FROM later) m GROUP BY m.queue, m.move
    RETURNING queue
  LOOP
    PERFORM bugle.check_bell(number);
  END LOOP;
END $$;

-- A signal of a file that nobody had taken; false: it is there already.
CREATE FUNCTION bugle.import_signal(p_namespace text, s jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  space int;
BEGIN
  PERFORM bugle.declare_flow(p_namespace);
  SELECT n.id INTO STRICT space FROM bugle.namespace n WHERE n.name = p_namespace;
  INSERT INTO bugle.signal (namespace, key, id, payload, actor, sent_at)
  VALUES (space, s->>'key', (s->>'id')::bigint, s->'payload', s->>'actor', (s->>'sent_at')::timestamptz) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    PERFORM bugle.ask_match(space, s->>'key');
    RETURN true;
  END IF;
  RETURN false;
END $$;
