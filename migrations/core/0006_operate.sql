-- What people do with queues and jobs: pause and resume them, cancel them, try them again.

-- Has the cursor c passed this row, and does not wait for it?
CREATE FUNCTION bugle.is_passed(c bugle.cursor, p_lane smallint, p_x bigint, p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (p_x, p_id) <= (c.px[p_lane + 1], c.pid[p_lane + 1])
  AND (c.pend = '{}' OR NOT EXISTS (SELECT FROM unnest(c.pend) AS u WHERE u.lane = p_lane AND u.x = p_x AND p_id > u.id));

-- Refuses a caller whose snapshot may be older than the queue's lock: it would decide by what is no longer true.
CREATE FUNCTION bugle.check_read_committed(p_what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION '% runs in % isolation', p_what, current_setting('transaction_isolation')
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Call it in READ COMMITTED: it needs a snapshot younger than the queue''s lock.';
  END IF;
END $$;

-- The number of a queue that must be there.
CREATE FUNCTION bugle.existing_queue(p_queue text, p_namespace text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
  number int := bugle.find_queue(p_namespace, p_queue);
BEGIN
  IF number IS NULL THEN
    RAISE EXCEPTION 'queue "%" does not exist in namespace "%"', coalesce(left(p_queue, 80), 'NULL'), coalesce(left(p_namespace, 80), 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'List the queues with bugle queue ls.';
  END IF;
  RETURN number;
END $$;

-- Rings control from under a queue's lock, where nobody may be waited for. Somebody who is just changing control raises the version himself;
-- should he give up, the ring alone tells of this change, which is enough: what is paused or cancelled is found by every look and every ack.
CREATE FUNCTION bugle.ring_control_under_lock() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM bugle.control FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    PERFORM bugle.ring_control();
  ELSE
    PERFORM pg_notify(bugle.bell_channel(), '0');
  END IF;
END $$;

-- Pauses or resumes a queue; false when it was so already. A claim under way is waited for, a later one reads what is written here.
-- Holds the queue's lock until the transaction ends: call it in a transaction of its own.
CREATE FUNCTION bugle.set_paused(p_queue text, p_namespace text, p_paused boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.existing_queue(p_queue, p_namespace);
BEGIN
  PERFORM bugle.check_holds(number, 'jobs');
  RETURN bugle.set_queue_paused(number, p_queue, p_paused);
END $$;

-- The cursor of a queue, which nobody moves from now to the end of the transaction. What is said of the queue there is another generation.
CREATE FUNCTION bugle.lock_cursor(number int, p_queue text) RETURNS bugle.cursor LANGUAGE plpgsql
SET lock_timeout = '5s' AS $$
DECLARE
  c bugle.cursor;
BEGIN
  BEGIN
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), number);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'queue "%" is held by another transaction', left(p_queue, 80)
      USING ERRCODE = 'lock_not_available', HINT = 'Somebody cancels, pauses or rebases in a transaction that stays open. Try again when it has ended.';
  END;
  SELECT * INTO STRICT c FROM bugle.cursor k WHERE k.queue = number ORDER BY k.gen DESC LIMIT 1;
  RETURN c;
END $$;

-- The same for a queue by its number, whatever it holds.
CREATE FUNCTION bugle.set_queue_paused(number int, p_queue text, p_paused boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  c bugle.cursor;
BEGIN
  PERFORM bugle.check_read_committed(CASE WHEN p_paused THEN 'pause' ELSE 'resume' END);
  c := bugle.lock_cursor(number, p_queue);
  IF c.paused = p_paused THEN
    RETURN false;
  END IF;
  INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused, claim_limit)
  VALUES (c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, p_paused, c.claim_limit);
  PERFORM bugle.ring_control_under_lock();   -- before the bell: that nobody took anything meanwhile is no fault
  IF NOT p_paused THEN
    PERFORM bugle.check_bell(number);   -- what waited meanwhile is claimable now (rule 1)
  END IF;
  RETURN true;
END $$;

-- From the moment that this has committed nothing of the queue is handed out; what is leased goes on and is settled as always.
CREATE FUNCTION bugle.pause(p_queue text, p_namespace text DEFAULT 'default') RETURNS boolean LANGUAGE sql
AS $$ SELECT bugle.set_paused(p_queue, p_namespace, true) $$;

-- Hands out again, and wakes who sleeps for the queue.
CREATE FUNCTION bugle.resume(p_queue text, p_namespace text DEFAULT 'default') RETURNS boolean LANGUAGE sql
AS $$ SELECT bugle.set_paused(p_queue, p_namespace, false) $$;

-- Writes down that a job was cancelled, and from which state.
CREATE FUNCTION bugle.note_cancelled(
  p_queue int, p_lane smallint, p_attempt smallint, p_id bigint, p_enqueued_at timestamptz, p_max_attempts smallint,
  p_kind text, p_key text, p_extra jsonb, p_payload jsonb, p_was text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.history (queue, lane, attempt, id, enqueued_at, max_attempts, state, kind, key, extra, payload)
  VALUES (p_queue, p_lane, p_attempt, p_id, p_enqueued_at, p_max_attempts, 'cancelled', p_kind, p_key, p_extra, p_payload);
  INSERT INTO bugle.tally (queue, move, n)
  SELECT p_queue, m.id, 1 FROM bugle.move m WHERE m.cause = 'cancel' AND m.from_state = p_was;
  INSERT INTO bugle.ended (queue, state, ids) VALUES (p_queue, 'cancelled', ARRAY[p_id]);
END $$;

-- Ends a job that has not ended. Returns the state that it was in, NULL when the namespace has no such open job.
-- 'ready' and 'scheduled' are certain: it will never start. 'leased': a worker may be running it and will find it gone.
-- Holds the queue's lock until the transaction ends: call it in a transaction of its own.
CREATE FUNCTION bugle.cancel(p_id bigint, p_namespace text DEFAULT 'default') RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  queues int[] := ARRAY(SELECT q.id FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = p_namespace AND q.holds = 'jobs');
  place record;
  j record;
  c bugle.cursor;
  was text;
BEGIN
  PERFORM bugle.check_read_committed('cancel');
  FOR round IN 1..10 LOOP   -- the job may move on between finding and deleting it
    DELETE FROM bugle.due d WHERE d.id = p_id AND d.queue = ANY (queues) RETURNING d.* INTO j;
    IF FOUND THEN
      PERFORM bugle.note_cancelled(j.queue, j.lane, j.attempt, j.id, j.enqueued_at, j.max_attempts, j.kind, j.key, j.extra, j.payload, 'scheduled');
      RETURN 'scheduled';
    END IF;
    SELECT h.queue, h.lane, h.x INTO place FROM bugle.job h WHERE h.id = p_id AND h.queue = ANY (queues);
    EXIT WHEN NOT FOUND AND round > 1;   -- seen in neither table twice in a row: it has ended
    CONTINUE WHEN NOT FOUND;
    -- Under the lock no claim can pass the row. Whoever holds the row is not waited for: claims wait for this lock.
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), place.queue);
    SELECT h.* INTO j FROM bugle.job h
    WHERE h.queue = place.queue AND h.lane = place.lane AND h.x = place.x AND h.id = p_id
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      PERFORM 1 FROM bugle.job h WHERE h.queue = place.queue AND h.lane = place.lane AND h.x = place.x AND h.id = p_id;
      CONTINUE WHEN NOT FOUND;
      RAISE EXCEPTION 'job % is being ended by another transaction', p_id
        USING ERRCODE = 'lock_not_available', HINT = 'Try again when that transaction has ended.';
    END IF;
    SELECT * INTO c FROM bugle.cursor k WHERE k.queue = j.queue ORDER BY k.gen DESC LIMIT 1;
    was := CASE WHEN bugle.is_passed(c, j.lane, j.x, j.id) THEN 'leased' ELSE 'ready' END;
    DELETE FROM bugle.job h WHERE h.queue = j.queue AND h.lane = j.lane AND h.x = j.x AND h.id = j.id;
    -- A quick look whose snapshot is older than this transaction must not hand it out: a new generation refuses it.
    INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused, claim_limit)
    VALUES (c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, c.paused, c.claim_limit);
    PERFORM bugle.note_cancelled(j.queue, j.lane, j.attempt, j.id, j.enqueued_at, j.max_attempts, j.kind, j.key, j.extra, j.payload, was);
    IF was = 'leased' THEN   -- the worker that runs it must learn of it
      PERFORM bugle.ring_control_under_lock();
    END IF;
    RETURN was;
  END LOOP;
  RETURN NULL;
END $$;

-- Makes a job ready now: one that backs off or is scheduled as it is, a dead one with all its attempts anew.
-- Returns the state that it was in, NULL when it is neither scheduled nor dead in this namespace.
CREATE FUNCTION bugle.retry(p_id bigint, p_namespace text DEFAULT 'default') RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  queues int[] := ARRAY(SELECT q.id FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = p_namespace AND q.holds = 'jobs');
  number int;
  was text;
BEGIN
  WITH waiting AS (
    DELETE FROM bugle.due d WHERE d.id = p_id AND d.queue = ANY (queues) RETURNING d.*
  ), dead AS (
    DELETE FROM bugle.dead d WHERE d.id = p_id AND d.queue = ANY (queues) RETURNING d.*
  ), again AS (
    SELECT 'scheduled' AS was, queue, lane, attempt, id, enqueued_at, max_attempts, kind, key, extra, payload FROM waiting
    UNION ALL
    SELECT 'dead', queue, lane, 0, id, enqueued_at, max_attempts, kind, key, extra, payload FROM dead
  ), written AS (
    INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT queue, lane, attempt, id, enqueued_at, max_attempts, kind, key, extra, payload FROM again
  )
  SELECT a.was, a.queue INTO was, number FROM again a;
  INSERT INTO bugle.tally (queue, move, n)
  SELECT number, m.id, 1 FROM bugle.move m WHERE m.cause = 'retry' AND m.from_state = was;
  IF was IS NOT NULL THEN
    PERFORM bugle.check_bell(number);
  END IF;
  RETURN was;
END $$;
