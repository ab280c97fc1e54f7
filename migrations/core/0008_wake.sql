-- Who is woken. The rules are those of docs/wake.md, named here by their numbers.
-- Each bucket has two advisory locks: the bell (producers try it shared, one sleeping node holds it exclusively) and the mark
-- (sleeping nodes without the bell hold it shared).

CREATE FUNCTION bugle.bell_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.bell'::bytea), 'hex'), 8))::bit(32)::int;

CREATE FUNCTION bugle.mark_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.mark'::bytea), 'hex'), 8))::bit(32)::int;

-- One channel for a schema. A hash: of fixed length (PostgreSQL cuts names at 63 bytes), and it tells nobody a name.
CREATE FUNCTION bugle.bell_channel() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'bugle_' || left(encode(sha256('bugle.channel'::bytea), 'hex'), 16);

-- The bucket of a queue's number: 1 to 64. The ends of its jobs have the same number, negative, and buckets of their own, 65 to 128 (0009): who
-- waits for ends is not rung for by enqueues, nor a worker by ends. Number 0 is control. The same rule stands in
-- crates/bugle-wake/src/number.rs; a test compares.
CREATE FUNCTION bugle.bucket_of(p_number int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_number > 0 THEN 1 + (p_number - 1) % 64 ELSE 65 + -(p_number + 1) % 64 END;

-- What a producer does that found the bell taken. A function of its own, so that PostgreSQL can count rings beside checks without a write
-- (docs/wake.md): whoever rings pays for a NOTIFY, and does not notice the call.
CREATE FUNCTION bugle.ring_bell(p_queue int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify(bugle.bell_channel(), bugle.bucket_of(p_queue) || ':' || p_queue);
END $$;

-- Rings when somebody sleeps, and only then. The shared lock is kept to the end of the transaction: whoever takes the bell afterwards sees
-- the job.
CREATE FUNCTION bugle.ask_bell(p_queue int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(bugle.bell_class(), bugle.bucket_of(p_queue))
    AND coalesce(current_setting('bugle.ring', true), 'on') <> 'off' THEN
    PERFORM bugle.ring_bell(p_queue);
  END IF;
END $$;

-- Rule 1. Every transaction that makes a job claimable, or claimable sooner, or ends it (with the negative number), calls this after the
-- write. Most often nobody sleeps, and to see that takes no call: PostgreSQL puts this expression in the place of its name. A session that
-- counts functions calls.
-- PREPARE TRANSACTION refuses a transaction that has rung: SET LOCAL bugle.ring = 'off', and SELECT bugle.ring_queue(...) after the commit.
CREATE FUNCTION bugle.check_bell(p_queue int) RETURNS text LANGUAGE sql AS $$
  SELECT CASE WHEN current_setting('track_functions') <> 'none' OR NOT pg_try_advisory_xact_lock_shared(bugle.bell_class(), bugle.bucket_of(p_queue))
    THEN bugle.ask_bell(p_queue)::text END
$$;

-- Rings for a queue and for the ends of its jobs by hand: after COMMIT PREPARED, a restore, or writes of logical replication.
CREATE FUNCTION bugle.ring_queue(p_queue text, p_namespace text DEFAULT 'default') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.find_queue(p_namespace, p_queue);
BEGIN
  IF number IS NULL THEN
    RAISE EXCEPTION 'queue "%" does not exist in namespace "%"', left(p_queue, 80), left(p_namespace, 80)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'List the queues with bugle queue ls.';
  END IF;
  PERFORM pg_notify(bugle.bell_channel(), bugle.bucket_of(n) || ':' || n) FROM unnest(ARRAY[number, -number]) AS n;
END $$;

-- The statements of a node, on its listener session and nowhere else: a session's own locks do not refuse it.
-- Tests of a lock give it back at once, so that a statement for many buckets refuses nobody longer than it must.
-- An error leaves locks behind: the node drops the session then, and the locks with it.

-- Rule 7: a handover, if anybody is marked.
CREATE FUNCTION bugle.ring_if_marked(p_buckets int[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  b int;
  rung int := 0;
BEGIN
  FOREACH b IN ARRAY p_buckets LOOP
    IF pg_try_advisory_lock(bugle.mark_class(), b) THEN
      PERFORM pg_advisory_unlock(bugle.mark_class(), b);
    ELSE
      -- A notification need not survive a crash of the server: no flush. For this transaction alone: a pooler may own the session.
      PERFORM set_config('synchronous_commit', 'off', true);
      PERFORM pg_notify(bugle.bell_channel(), b || ':h');
      rung := rung + 1;
    END IF;
  END LOOP;
  RETURN rung;
END $$;

-- Rule 5. Buckets in ascending order, or two nodes could wait for each other's marks. What becomes of each: bell, reserve or shallow.
CREATE FUNCTION bugle.sit(p_buckets int[], p_marked boolean[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
  b int;
  seats text[] := '{}';
BEGIN
  FOR i IN 1..cardinality(p_buckets) LOOP
    b := p_buckets[i];
    IF pg_try_advisory_lock(bugle.bell_class(), b) THEN
      IF p_marked[i] THEN
        PERFORM pg_advisory_unlock_shared(bugle.mark_class(), b);
      END IF;
      PERFORM bugle.ring_if_marked(ARRAY[b]);
      seats := seats || 'bell'::text;
      CONTINUE;
    END IF;
    -- The mark before the test: a sentinel that leaves after the test must see it. Waits only for somebody's ring_if_marked.
    IF NOT p_marked[i] THEN
      PERFORM pg_advisory_lock_shared(bugle.mark_class(), b);
    END IF;
    -- A refusal is no proof of a sentinel: it may have been a producer. Producers share, a sentinel does not.
    IF pg_try_advisory_lock_shared(bugle.bell_class(), b) THEN
      PERFORM pg_advisory_unlock_shared(bugle.bell_class(), b);
      PERFORM pg_advisory_unlock_shared(bugle.mark_class(), b);
      seats := seats || 'shallow'::text;
    ELSE
      seats := seats || 'reserve'::text;
    END IF;
  END LOOP;
  RETURN seats;
END $$;

-- Rule 8: unlock first, then ring.
CREATE FUNCTION bugle.leave(p_bells int[], p_marks int[]) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_unlock(bugle.bell_class(), b) FROM unnest(p_bells) AS b;
  PERFORM pg_advisory_unlock_shared(bugle.mark_class(), b) FROM unnest(p_marks) AS b;
  RETURN bugle.ring_if_marked(p_bells);
END $$;

-- Control is rare and always rings, on number 0: it must reach nodes that are awake and hold no lock. They re-read this row's version.
CREATE TABLE bugle.control (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version bigint NOT NULL DEFAULT 1
);
INSERT INTO bugle.control DEFAULT VALUES;

CREATE FUNCTION bugle.ring_control() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.control SET version = version + 1;
  PERFORM pg_notify(bugle.bell_channel(), '0');
END $$;

-- Rule 10: is the session alive, and is it still the same (a pooler in transaction mode deals out others)? Has control changed?
-- Is PostgreSQL's own queue of notifications filling up, because somebody listens and does not read?
CREATE FUNCTION bugle.heartbeat(OUT backend int, OUT control bigint, OUT notify_usage float8) LANGUAGE sql AS $$
  SELECT pg_backend_pid(), c.version, pg_notification_queue_usage() FROM bugle.control c
$$;

-- How the waiters of a queue are woken (docs/wake.md).
ALTER TABLE bugle.queue
  ADD COLUMN mode text NOT NULL DEFAULT 'hybrid' CHECK (mode IN ('hybrid', 'event_driven_only', 'polling_only', 'shadow')),
  ADD COLUMN poll_interval interval CHECK (poll_interval BETWEEN interval '1 millisecond' AND interval '1 day');   -- NULL: the node's own

CREATE FUNCTION bugle.set_mode(p_queue text, p_mode text, p_poll_interval interval DEFAULT NULL, p_namespace text DEFAULT 'default') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_mode IS NULL OR p_mode NOT IN ('hybrid', 'event_driven_only', 'polling_only', 'shadow') THEN
    RAISE EXCEPTION 'mode is "%"; there are hybrid, event_driven_only, polling_only and shadow', coalesce(left(p_mode, 80), 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Use hybrid unless you know better.';
  END IF;
  IF p_poll_interval NOT BETWEEN interval '1 millisecond' AND interval '1 day' THEN
    RAISE EXCEPTION 'poll interval is %; allowed are 1 millisecond to 1 day', p_poll_interval
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out for that of the node''s options.';
  END IF;
  UPDATE bugle.queue SET mode = p_mode, poll_interval = p_poll_interval WHERE id = bugle.find_queue(p_namespace, p_queue);
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue "%" does not exist in namespace "%"', left(p_queue, 80), left(p_namespace, 80)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'List the queues with bugle queue ls.';
  END IF;
  PERFORM bugle.ring_control();
END $$;

-- Who sleeps where: the locks tell, nothing is stored. For people: no node reads it.
CREATE VIEW bugle.seat AS
SELECT l.objid::bigint::int AS bucket, l.pid,
  CASE WHEN l.classid::bigint = bugle.bell_class()::bigint & 4294967295 THEN 'sentinel' ELSE 'reserve' END AS seat,
  a.application_name, a.backend_start
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint = bugle.bell_class()::bigint & 4294967295 AND l.mode = 'ExclusiveLock'
    OR l.classid::bigint = bugle.mark_class()::bigint & 4294967295 AND l.mode = 'ShareLock');
