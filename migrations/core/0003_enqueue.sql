-- Writing jobs. These functions are for every language and for triggers; they work inside the caller's own transaction.

-- The number of a queue, made on first use. Two transactions that make the same queue at once wait for each other: declare a
-- queue beforehand (any enqueue does it) when long transactions are its first users. A queue holds jobs or messages: BGL04 for the other.
CREATE FUNCTION bugle.declare_queue(p_queue text, p_namespace text DEFAULT 'default', p_holds text DEFAULT 'jobs') RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.find_queue(p_namespace, p_queue);
  space int;
BEGIN
  IF number IS NOT NULL THEN
    PERFORM bugle.check_holds(number, p_holds);
    RETURN number;
  END IF;
  IF p_queue IS NULL OR octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'queue name is % bytes long; allowed are 1 to 255 bytes without control characters', coalesce(octet_length(p_queue), 0)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Choose another name for the queue.';
  END IF;
  SELECT id INTO space FROM bugle.namespace WHERE name = p_namespace;
  IF space IS NULL THEN
    RAISE EXCEPTION 'namespace "%" does not exist', left(p_namespace, 80)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Make it with SELECT bugle.declare_namespace(name), or use "default".';
  END IF;
  IF p_holds <> 'messages' THEN
    PERFORM bugle.check_no_events(space, p_queue);
  END IF;
  INSERT INTO bugle.queue (namespace, name, holds) VALUES (space, p_queue, p_holds)
  ON CONFLICT (namespace, name) DO NOTHING
  RETURNING id INTO number;
  IF number IS NULL THEN   -- somebody else made it meanwhile
    number := bugle.find_queue(p_namespace, p_queue);
    IF number IS NULL THEN   -- and this transaction's snapshot is too old to see it
      RAISE EXCEPTION 'queue "%" was just created by another transaction', p_queue
        USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    END IF;
    PERFORM bugle.check_holds(number, p_holds);
    RETURN number;
  END IF;
  IF p_holds = 'messages' THEN
    PERFORM bugle.declare_message_queue(number, p_queue);
  ELSE
    INSERT INTO bugle.cursor (queue, gen) VALUES (number, 0);
  END IF;
  RETURN number;
END $$;

-- Refuses a verb of jobs on a queue of messages or steps, and the other way round.
CREATE FUNCTION bugle.check_holds(p_number int, p_holds text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  q bugle.queue;
BEGIN
  SELECT * INTO q FROM bugle.queue WHERE id = p_number;
  IF q.holds <> p_holds THEN
    RAISE EXCEPTION 'queue "%" holds %: % are for queues of %', left(q.name, 80), q.holds,
      CASE p_holds WHEN 'jobs' THEN 'enqueue, claim and pause' WHEN 'messages' THEN 'push, pop and configure' ELSE 'definitions of workflows' END, p_holds
      USING ERRCODE = 'BGL04', HINT = 'Use another queue: what one holds is decided by its first use.';
  END IF;
END $$;

-- Refuses what may not be written. The same limits stand in crates/bugle/src/limits.rs; a test compares them.
CREATE FUNCTION bugle.check_job(p_kind text, p_payload jsonb, p_priority int, p_max_attempts int, p_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  fault text;
  next_step text;
  bytes int;
BEGIN
  IF p_kind IS NULL OR octet_length(p_kind) NOT BETWEEN 1 AND 255 OR p_kind ~ '[[:cntrl:]]' THEN
    fault := format('kind is %s bytes long; allowed are 1 to 255 bytes without control characters', coalesce(octet_length(p_kind), 0));
    next_step := 'Choose another name for the kind.';
  ELSIF p_priority IS NULL OR p_priority NOT BETWEEN 0 AND 3 THEN
    fault := format('priority is %s; allowed are 0 (first) to 3 (last)', coalesce(p_priority::text, 'NULL'));
    next_step := 'Leave it out for the normal priority, 2.';
  ELSIF p_max_attempts IS NULL OR p_max_attempts NOT BETWEEN 1 AND 1000 THEN
    fault := format('max_attempts is %s; allowed are 1 to 1000', coalesce(p_max_attempts::text, 'NULL'));
    next_step := 'Leave it out for the default, 5.';
  ELSIF octet_length(p_key) NOT BETWEEN 1 AND 255 OR p_key ~ '[[:cntrl:]]' THEN
    fault := format('key is %s bytes long; allowed are 1 to 255 bytes without control characters', octet_length(p_key));
    next_step := 'Use a shorter key, such as a hash of this one.';
  ELSIF p_payload IS NULL THEN
    fault := 'payload is NULL';
    next_step := 'Use the JSON value null for a job without payload.';
  ELSE
    bytes := octet_length(p_payload::text);
    IF bytes > 262144 THEN
      fault := format('payload is %s bytes long; allowed are at most 262144', bytes);
      next_step := 'Store the data elsewhere and enqueue a reference to it.';
    END IF;
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value', HINT = next_step;
  END IF;
END $$;

-- Refuses what extra may not hold. Its members have meanings of Bugle's own, and more will come: a user's data there would collide with them.
CREATE FUNCTION bugle.check_extra(p_extra jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  next_step text := 'It holds a retry rule of the job''s own, {"retry": {"table_s": [0, 30, 300]}} or {"retry": {"base_s": 1, "max_s": 900, "jitter": 0.2}}; whatever is yours belongs into payload.';
  fault text;
  stranger text;
  rule jsonb;
BEGIN
  IF jsonb_typeof(p_extra) <> 'object' THEN
    fault := format('extra is no JSON object but of type %s', jsonb_typeof(p_extra));
  ELSIF octet_length(p_extra::text) > 4096 THEN
    fault := format('extra is %s bytes long; allowed are at most 4096', octet_length(p_extra::text));
  ELSE
    SELECT k INTO stranger FROM jsonb_object_keys(p_extra) AS k WHERE k <> 'retry' LIMIT 1;
    rule := p_extra->'retry';
    IF stranger IS NOT NULL THEN
      fault := format('extra has the member "%s"; the only one that it may have is "retry"', left(stranger, 80));
    ELSIF NOT bugle.is_retry_rule(rule) THEN
      fault := format('extra.retry is %s, which is no retry rule', left(rule::text, 200));
    END IF;
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value', HINT = next_step;
  END IF;
END $$;

-- The rules are those of crates/bugle/src/jobs/retry.rs, which would ignore what it cannot read. NULL: there is none.
CREATE FUNCTION bugle.is_retry_rule(p_rule jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  members text[];
  numbers jsonb;
BEGIN
  IF p_rule IS NULL THEN
    RETURN NULL;
  ELSIF jsonb_typeof(p_rule) <> 'object' THEN
    RETURN false;
  END IF;
  members := ARRAY(SELECT k FROM jsonb_object_keys(p_rule) AS k ORDER BY k);
  IF members = '{table_s}' AND jsonb_typeof(p_rule->'table_s') = 'array' AND jsonb_array_length(p_rule->'table_s') BETWEEN 1 AND 100 THEN
    numbers := p_rule->'table_s';
  ELSIF members = '{base_s,jitter,max_s}' THEN
    numbers := jsonb_build_array(p_rule->'base_s', p_rule->'max_s', p_rule->'jitter');
  ELSE
    RETURN false;
  END IF;
  -- A CASE, because the order in which an AND is evaluated is nobody's promise. 100 years of 365.25 days, as extract counts them, in seconds.
  RETURN (SELECT bool_and(CASE WHEN jsonb_typeof(n) = 'number' THEN n::numeric BETWEEN 0 AND 3155760000 ELSE false END) FROM jsonb_array_elements(numbers) AS n);
END $$;

-- Takes a key for a new job. NULL: the key is free and now stands for p_id; otherwise the id of the job that has it.
-- Waits for a transaction that took the same key and is still open: only its end tells who is first.
CREATE FUNCTION bugle.take_key(p_queue int, p_key text, p_id bigint, p_window interval) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  taken bigint;
BEGIN
  -- A plain look first: whoever only repeats a key locks nothing and waits for nobody.
  SELECT id INTO taken FROM bugle.job_key WHERE queue = p_queue AND key = p_key AND until > clock_timestamp();
  IF FOUND THEN
    RETURN taken;
  END IF;
  INSERT INTO bugle.job_key AS k (queue, key, id, until)
  VALUES (p_queue, p_key, p_id, clock_timestamp() + p_window)
  ON CONFLICT (queue, key) DO UPDATE SET id = excluded.id, until = excluded.until
    WHERE k.until <= clock_timestamp();
  IF FOUND THEN
    RETURN NULL;
  END IF;
  SELECT id INTO STRICT taken FROM bugle.job_key WHERE queue = p_queue AND key = p_key;
  RETURN taken;
END $$;

-- Enqueues one job and returns its id; with a key that another job has, that job's id, and nothing is written.
-- extra: a retry rule of the job's own, {"retry": {"table_s": [0, 30, 300]}} or {"retry": {"base_s": 1, "max_s": 900, "jitter": 0.2}} (docs/jobs.md).
CREATE FUNCTION bugle.enqueue(
  queue text,
  kind text,
  payload jsonb DEFAULT 'null',
  due_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL,
  priority int DEFAULT 2,
  key text DEFAULT NULL,
  key_window interval DEFAULT '24 hours',
  max_attempts int DEFAULT 5,
  namespace text DEFAULT 'default',
  extra jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_queue ALIAS FOR queue; a_kind ALIAS FOR kind; a_payload ALIAS FOR payload; a_due ALIAS FOR due_at; a_delay ALIAS FOR delay;
  a_priority ALIAS FOR priority; a_key ALIAS FOR key; a_window ALIAS FOR key_window; a_max ALIAS FOR max_attempts; a_namespace ALIAS FOR namespace; a_extra ALIAS FOR extra;
  number int;
  new_id bigint;
  old_id bigint;
  due timestamptz;
BEGIN
  -- What is usual, at a glance: a call costs more than all of this. A byte that is stored is six bytes of text at most.
  IF (octet_length(a_kind) BETWEEN 1 AND 255 AND a_kind !~ '[[:cntrl:]]' AND a_priority BETWEEN 0 AND 3 AND a_max BETWEEN 1 AND 1000
    AND pg_column_size(a_payload) <= 43690 AND a_key IS NULL) IS NOT TRUE THEN
    PERFORM bugle.check_job(a_kind, a_payload, a_priority, a_max, a_key);
  END IF;
  IF a_extra IS NOT NULL THEN
    PERFORM bugle.check_extra(a_extra);
  END IF;
  IF a_due IS NOT NULL OR a_delay IS NOT NULL THEN
    due := bugle.due_time(a_due, a_delay);
  END IF;
  -- As find_queue does, without the call: this is a tenth of what an enqueue costs.
  SELECT q.id INTO number FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = a_namespace AND q.name = a_queue AND q.holds = 'jobs';
  IF NOT FOUND THEN
    number := bugle.declare_queue(a_queue, a_namespace);
  END IF;
  new_id := nextval('bugle.job_id');
  IF a_key IS NOT NULL THEN
    IF a_window IS NULL OR a_window <= interval '0' OR extract(epoch FROM a_window) > 3155760000 THEN
      RAISE EXCEPTION 'key_window is %; it must be longer than nothing and at most 100 years', coalesce(a_window::text, 'NULL')
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for the default, 24 hours.';
    END IF;
    old_id := bugle.take_key(number, a_key, new_id, a_window);
    IF old_id IS NOT NULL THEN
      RETURN old_id;
    END IF;
  END IF;
  IF due IS NULL THEN
    INSERT INTO bugle.job (queue, lane, id, max_attempts, kind, key, extra, payload)
    VALUES (number, a_priority, new_id, a_max, a_kind, a_key, a_extra, a_payload);
    INSERT INTO bugle.tally (queue, move, n) VALUES (number, 1, 1);
  ELSE
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, max_attempts, kind, key, extra, payload)
    VALUES (number, a_priority, 0, due, new_id, a_max, a_kind, a_key, a_extra, a_payload);
    INSERT INTO bugle.tally (queue, move, n) VALUES (number, 2, 1);
  END IF;
  PERFORM bugle.check_bell(number);
  RETURN new_id;
END $$;

-- When a job is due: NULL = now, at once.
CREATE FUNCTION bugle.due_time(p_due timestamptz, p_delay interval) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  due timestamptz := p_due;
BEGIN
  IF p_delay IS NOT NULL THEN
    IF p_due IS NOT NULL THEN
      RAISE EXCEPTION 'both due_at and delay are given'
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Give one of them.';
    END IF;
    -- In seconds: compared as intervals, 100 years are 36,000 days.
    IF p_delay < interval '0' OR extract(epoch FROM p_delay) > 3155760000 THEN
      RAISE EXCEPTION 'delay is %; use 0 to 100 years', p_delay
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for a job that is due at once.';
    END IF;
    due := clock_timestamp() + p_delay;
  END IF;
  IF due > clock_timestamp() + interval '100 years 1 day' THEN
    RAISE EXCEPTION 'due_at is %: more than 100 years from now', due
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a time at which it shall run.';
  END IF;
  RETURN CASE WHEN due > clock_timestamp() THEN due END;
END $$;

-- Enqueues many jobs of one kind with one statement and returns their ids, in the order of the payloads.
CREATE FUNCTION bugle.enqueue_many(
  queue text,
  kind text,
  payloads jsonb[],
  due_at timestamptz DEFAULT NULL,
  delay interval DEFAULT NULL,
  priority int DEFAULT 2,
  max_attempts int DEFAULT 5,
  namespace text DEFAULT 'default'
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_queue ALIAS FOR queue; a_kind ALIAS FOR kind; a_payloads ALIAS FOR payloads; a_due ALIAS FOR due_at; a_delay ALIAS FOR delay;
  a_priority ALIAS FOR priority; a_max ALIAS FOR max_attempts; a_namespace ALIAS FOR namespace;
  number int;
  due timestamptz;
  longest jsonb := 'null';
  ids bigint[];
BEGIN
  IF cardinality(a_payloads) IS NULL OR cardinality(a_payloads) > 10000 THEN
    RAISE EXCEPTION 'payloads has % elements; allowed are at most 10000', coalesce(cardinality(a_payloads)::text, 'no')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Enqueue them in several calls.';
  END IF;
  IF array_position(a_payloads, NULL) IS NOT NULL THEN
    longest := NULL;
  ELSIF pg_column_size(a_payloads) > 262144 THEN   -- otherwise none of them is long
    SELECT p INTO longest FROM unnest(a_payloads) AS p ORDER BY octet_length(p::text) DESC LIMIT 1;
  END IF;
  PERFORM bugle.check_job(a_kind, longest, a_priority, a_max, NULL);
  IF a_due IS NOT NULL OR a_delay IS NOT NULL THEN
    due := bugle.due_time(a_due, a_delay);
  END IF;
  -- As find_queue does, without the call.
  SELECT q.id INTO number FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = a_namespace AND q.name = a_queue AND q.holds = 'jobs';
  IF NOT FOUND THEN
    number := bugle.declare_queue(a_queue, a_namespace);
  END IF;
  IF cardinality(a_payloads) = 0 THEN
    RETURN '{}';
  END IF;
  SELECT array_agg(nextval('bugle.job_id')) INTO ids FROM generate_series(1, cardinality(a_payloads));
  IF due IS NULL THEN
    INSERT INTO bugle.job (queue, lane, id, max_attempts, kind, payload)
    SELECT number, a_priority, u.id, a_max, a_kind, u.p FROM unnest(ids, a_payloads) AS u (id, p);
    INSERT INTO bugle.tally (queue, move, n) VALUES (number, 1, cardinality(ids));
  ELSE
    INSERT INTO bugle.due (queue, lane, attempt, due_at, id, max_attempts, kind, payload)
    SELECT number, a_priority, 0, due, u.id, a_max, a_kind, u.p FROM unnest(ids, a_payloads) AS u (id, p);
    INSERT INTO bugle.tally (queue, move, n) VALUES (number, 2, cardinality(ids));
  END IF;
  PERFORM bugle.check_bell(number);
  RETURN ids;
END $$;

-- Call it after COPY bugle.job (queue, lane, max_attempts, kind, payload) FROM STDIN, in the same transaction, with how many rows of which
-- queue that were: they are counted, and whoever sleeps is woken.
CREATE FUNCTION bugle.copied(p_queue int, p_n bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_n > 0 THEN
    INSERT INTO bugle.tally (queue, move, n) VALUES (p_queue, 1, p_n);
    PERFORM bugle.check_bell(p_queue);
  END IF;
END $$;
