-- What people do with queues and jobs: look at them, pause and resume them, cancel them, try them again.

-- Has the cursor c passed this row, and does not wait for it?
CREATE FUNCTION bugle.is_passed(c bugle.cursor, p_lane smallint, p_x bigint, p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (p_x, p_id) <= (c.px[p_lane + 1], c.pid[p_lane + 1])
  AND (c.pend = '{}' OR NOT EXISTS (SELECT FROM unnest(c.pend) AS u WHERE u.lane = p_lane AND u.x = p_x AND p_id > u.id));

-- Is this row one of the lease's?
CREATE FUNCTION bugle.covers(l bugle.lease, p_lane smallint, p_x bigint, p_id bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_x <> ALL (l.skip) AND EXISTS (
  SELECT FROM unnest(l.lane, l.lo_x, l.lo_id, l.hi_x, l.hi_id) AS r (lane, lo_x, lo_id, hi_x, hi_id)
  WHERE r.lane = p_lane AND (p_x, p_id) > (r.lo_x, r.lo_id) AND (p_x, p_id) <= (r.hi_x, r.hi_id));

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
CREATE FUNCTION bugle.set_paused(p_queue text, p_namespace text, p_paused boolean) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '5s' AS $$
DECLARE
  number int := bugle.existing_queue(p_queue, p_namespace);
  c bugle.cursor;
BEGIN
  PERFORM bugle.check_read_committed(CASE WHEN p_paused THEN 'pause' ELSE 'resume' END);
  BEGIN
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), number);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'queue "%" is held by another transaction', left(p_queue, 80)
      USING ERRCODE = 'lock_not_available', HINT = 'Somebody cancels, pauses or rebases in a transaction that stays open. Try again when it has ended.';
  END;
  SELECT * INTO STRICT c FROM bugle.cursor k WHERE k.queue = number ORDER BY k.gen DESC LIMIT 1;
  IF c.paused = p_paused THEN
    RETURN false;
  END IF;
  INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused)
  VALUES (c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, p_paused);
  IF NOT p_paused THEN
    PERFORM bugle.check_bell(number);   -- what waited meanwhile is claimable now (rule 1)
  END IF;
  PERFORM bugle.ring_control_under_lock();
  RETURN true;
END $$;

-- From the moment that this has committed nothing of the queue is handed out; what is leased goes on and is settled as always.
CREATE FUNCTION bugle.pause(p_queue text, p_namespace text DEFAULT 'default') RETURNS boolean LANGUAGE sql
AS $$ SELECT bugle.set_paused(p_queue, p_namespace, true) $$;

-- Hands out again, and wakes who sleeps for the queue.
CREATE FUNCTION bugle.resume(p_queue text, p_namespace text DEFAULT 'default') RETURNS boolean LANGUAGE sql
AS $$ SELECT bugle.set_paused(p_queue, p_namespace, false) $$;

-- Since when the job has been due that is next in line behind the cursor c: how far the queue lags. NULL: none is ready. Reads one row a lane.
CREATE FUNCTION bugle.oldest_ready(c bugle.cursor) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  oldest timestamptz;
BEGIN
  SELECT min(f.due_at) INTO oldest
  FROM (
    SELECT next.due_at
    FROM generate_series(0, 3) AS l (lane)
    CROSS JOIN LATERAL (
      SELECT j.due_at FROM bugle.job j
      WHERE j.queue = c.queue AND j.lane = l.lane AND (j.x, j.id) > (c.px[l.lane + 1], c.pid[l.lane + 1])
      ORDER BY j.x, j.id LIMIT 1
    ) next
    UNION ALL
    SELECT late.due_at
    FROM unnest(c.pend) AS u
    CROSS JOIN LATERAL (
      SELECT j.due_at FROM bugle.job j
      WHERE j.queue = c.queue AND j.lane = u.lane AND j.x = u.x AND j.id > u.id
      ORDER BY j.id LIMIT 1
    ) late
  ) f;
  RETURN oldest;
END $$;

-- Every job that Bugle still knows, in one shape. For people and tests: no part of the hot path reads it.
-- A row of job is leased when its lane's cursor has passed it.
CREATE VIEW bugle.job_view AS
SELECT j.id, j.queue,
  CASE WHEN bugle.is_passed(c.cur, j.lane, j.x, j.id) THEN 'leased' ELSE 'ready' END AS state,
  j.lane AS priority, j.attempt, j.max_attempts, j.enqueued_at, j.due_at, NULL::timestamptz AS finished_at, j.kind, j.key, j.extra, j.payload, j.x,
  NULL::text AS ended_by, NULL::jsonb AS result
FROM bugle.job j
JOIN (SELECT n.queue, ROW(n.*)::bugle.cursor AS cur FROM bugle.newest_cursor n) c ON c.queue = j.queue
UNION ALL
SELECT d.id, d.queue, 'scheduled', d.lane, d.attempt, d.max_attempts, d.enqueued_at, d.due_at, NULL, d.kind, d.key, d.extra, d.payload, NULL, NULL, NULL
FROM bugle.due d
UNION ALL
SELECT d.id, d.queue, 'dead', d.lane, d.attempt, d.max_attempts, d.enqueued_at, NULL, d.died_at, d.kind, d.key, d.extra, d.payload, NULL, NULL, NULL
FROM bugle.dead d
UNION ALL
SELECT h.id, h.queue, h.state, h.lane, h.attempt, h.max_attempts, h.enqueued_at, NULL, h.finished_at, h.kind, h.key, h.extra, h.payload, NULL, h.worker, h.result
FROM bugle.history h;

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
  queues int[] := ARRAY(SELECT q.id FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = p_namespace);
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
    INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, paused) VALUES (c.queue, c.gen + 1, c.px, c.pid, c.pend, c.claimed, c.paused);
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
  queues int[] := ARRAY(SELECT q.id FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = p_namespace);
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

-- Who holds jobs of a queue, and how many are left of them; of the 10,000 leases that end first.
CREATE FUNCTION bugle.holders(p_queue int)
RETURNS TABLE (worker text, leases bigint, jobs bigint, since timestamptz, until timestamptz, alive boolean) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  this_moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  SELECT l.worker, count(*), sum(j.n)::bigint, min(l.claimed_at), min(l.until), bool_or(l.until > this_moment)
  FROM (
    SELECT * FROM bugle.lease e
    WHERE e.queue = p_queue
    ORDER BY e.until LIMIT 10000
  ) l
  CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM bugle.jobs_of(ROW(l.*)::bugle.lease)
  ) j
  GROUP BY l.worker
  ORDER BY l.worker;
END $$;

-- How many jobs go before the ready one (p_lane, p_x, p_id), counted up to p_most.
CREATE FUNCTION bugle.ahead_of(p_queue int, p_lane smallint, p_x bigint, p_id bigint, p_most bigint) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  c bugle.cursor;
  ahead bigint;
BEGIN
  SELECT * INTO c FROM bugle.cursor k WHERE k.queue = p_queue ORDER BY k.gen DESC LIMIT 1;
  IF (p_x, p_id) <= (c.px[p_lane + 1], c.pid[p_lane + 1]) THEN
    RETURN 0;   -- its transaction was late: the next look begins with it
  END IF;
  SELECT count(*) INTO ahead
  FROM (
    SELECT
    FROM generate_series(0, p_lane) AS l (lane)
    CROSS JOIN LATERAL (
      SELECT FROM bugle.job j
      WHERE j.queue = p_queue AND j.lane = l.lane AND (j.x, j.id) > (c.px[l.lane + 1], c.pid[l.lane + 1])
        AND (j.x, j.id) < (CASE WHEN l.lane = p_lane THEN p_x ELSE 9223372036854775807 END, p_id)
      ORDER BY j.x, j.id LIMIT p_most
    ) before
    LIMIT p_most
  ) s;
  RETURN ahead;
END $$;

-- Dead jobs are redriven and purged in steps, each a short transaction that reads the next p_most of the namespace in the order of their ids,
-- whether they match or not. last tells where the next step begins; read < p_most: this was the last one. A filter that is NULL matches all.
-- A job that dies again meanwhile keeps its id, so no step meets it twice.

-- What a step reads. code: the error of the last attempt, for as long as that is kept (history_days).
CREATE FUNCTION bugle.match_dead(p_namespace text, p_queue text, p_kind text, p_code text, p_older interval, p_after bigint, p_most int)
RETURNS TABLE (id bigint, queue text, kind text, code text, died_at timestamptz, matches boolean) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  until timestamptz := clock_timestamp() - coalesce(p_older, interval '0');
  space int := (SELECT n.id FROM bugle.namespace n WHERE n.name = p_namespace);
BEGIN
  IF p_most IS NULL OR p_most NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'a step of % dead jobs was asked for; allowed are 1 to 10000', coalesce(p_most::text, 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Take several steps.';
  END IF;
  RETURN QUERY
  SELECT d.id, q.name::text, d.kind, f.code, d.died_at,
    d.died_at <= until AND q.name = coalesce(p_queue, q.name) AND d.kind = coalesce(p_kind, d.kind)
      AND (p_code IS NULL OR coalesce(f.code = p_code, false))
  FROM (
    SELECT b.* FROM bugle.dead b
    WHERE b.id > p_after AND b.queue IN (SELECT s.id FROM bugle.queue s WHERE s.namespace = space)
    ORDER BY b.id LIMIT p_most
  ) d
  JOIN bugle.queue q ON q.id = d.queue
  LEFT JOIN LATERAL (
    SELECT x.code FROM bugle.failure x WHERE x.id = d.id ORDER BY x.failed_at DESC LIMIT 1
  ) f ON true;
END $$;

-- Makes the dead jobs of a step ready, with all their attempts anew.
CREATE FUNCTION bugle.redrive_dead(
  p_namespace text, p_queue text, p_kind text, p_code text, p_older interval, p_after bigint, p_most int,
  OUT read int, OUT changed int, OUT last bigint
) LANGUAGE plpgsql AS $$
DECLARE
  matching bigint[];
  queues int[];
BEGIN
  SELECT count(*), max(m.id), coalesce(array_agg(m.id) FILTER (WHERE m.matches), '{}') INTO read, last, matching
  FROM bugle.match_dead(p_namespace, p_queue, p_kind, p_code, p_older, p_after, p_most) m;
  WITH gone AS (
    DELETE FROM bugle.dead d
    WHERE d.id = ANY (ARRAY(SELECT h.id FROM bugle.dead h WHERE h.id = ANY (matching) FOR UPDATE SKIP LOCKED))
    RETURNING d.*
  ), written AS (
    INSERT INTO bugle.job (queue, lane, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT queue, lane, id, enqueued_at, max_attempts, kind, key, extra, payload FROM gone ORDER BY id
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT queue, 14, count(*) FROM gone GROUP BY queue
  )
  SELECT count(*), coalesce(array_agg(DISTINCT queue), '{}') INTO changed, queues FROM gone;
  PERFORM bugle.check_bell(q) FROM unnest(queues) AS q;   -- once a queue, however many jobs
END $$;

-- A purge is the only move to no state: the job is gone.
ALTER TABLE bugle.move ALTER COLUMN to_state DROP NOT NULL;
INSERT INTO bugle.move (id, cause, from_state, to_state) VALUES (16, 'purge', 'dead', NULL);

-- Deletes the dead jobs of a step for good. Their failed attempts age like all others, and their keys last to the end of their window.
CREATE FUNCTION bugle.purge_dead(
  p_namespace text, p_queue text, p_kind text, p_code text, p_older interval, p_after bigint, p_most int,
  OUT read int, OUT changed int, OUT last bigint
) LANGUAGE plpgsql AS $$
DECLARE
  matching bigint[];
BEGIN
  SELECT count(*), max(m.id), coalesce(array_agg(m.id) FILTER (WHERE m.matches), '{}') INTO read, last, matching
  FROM bugle.match_dead(p_namespace, p_queue, p_kind, p_code, p_older, p_after, p_most) m;
  WITH gone AS (
    DELETE FROM bugle.dead d
    WHERE d.id = ANY (ARRAY(SELECT h.id FROM bugle.dead h WHERE h.id = ANY (matching) FOR UPDATE SKIP LOCKED))
    RETURNING d.queue
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT queue, 16, count(*) FROM gone GROUP BY queue
  )
  SELECT count(*) INTO changed FROM gone;
END $$;
