-- The periodic pass. Any node may call these at any time; whoever holds the sweep's lock does the work, the others do nothing.

CREATE FUNCTION bugle.day_start(p_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE
RETURN date_trunc('day', p_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';

-- Tables of which every day has a partition, and the column that says which. The log of workflows comes later (0033).
CREATE TABLE bugle.by_day (
  name text PRIMARY KEY,
  at text NOT NULL
);
INSERT INTO bugle.by_day (name, at) VALUES ('history', 'finished_at'), ('failure', 'failed_at');

-- Makes their partitions for yesterday and p_ahead days to come. Returns how many were made.
-- The table is made beside its parent and then attached: that locks the default partition for a moment, nobody out of the others. Rows that
-- meanwhile went into the default partition are moved along.
CREATE FUNCTION bugle.make_partitions(p_now timestamptz DEFAULT now(), p_ahead int DEFAULT 7) RETURNS int LANGUAGE plpgsql
SET lock_timeout = '200ms' SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
DECLARE
  t record;
  a timestamptz;
  part text;
  made int := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.sweep_class(), 1) THEN
    RETURN 0;
  END IF;
  FOR t IN SELECT * FROM bugle.by_day LOOP
    FOR d IN -1..p_ahead LOOP
      a := bugle.day_start(p_now) + d * interval '24 hours';
      part := t.name || '_' || to_char(a AT TIME ZONE 'UTC', 'YYYYMMDD');
      CONTINUE WHEN to_regclass(format('%s%I', 'bugle.', part)) IS NOT NULL;
      BEGIN
        EXECUTE format('CREATE TABLE bugle.%I (LIKE bugle.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, t.name);
        EXECUTE format('WITH d AS (DELETE FROM bugle.%1$I WHERE %2$I >= %3$L AND %2$I < %4$L RETURNING *) INSERT INTO bugle.%5$I SELECT * FROM d',
          t.name || '_default', t.at, a, a + interval '24 hours', part);
        EXECUTE format('ALTER TABLE bugle.%I ATTACH PARTITION bugle.%I FOR VALUES FROM (%L) TO (%L)', t.name, part, a, a + interval '24 hours');
        made := made + 1;
      EXCEPTION WHEN lock_not_available OR check_violation THEN
        NULL;   -- a dump holds the default partition, or a row came in between: the next pass tries again
      END;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;

-- Drops the partitions of days that ended more than history_days before p_now, and deletes what is as old in the default ones. Returns how
-- many were dropped. A DROP locks the whole table for a moment and waits for every transaction that uses it: with a timeout, or everybody
-- would wait behind it; the next pass tries again.
CREATE FUNCTION bugle.drop_partitions(p_now timestamptz DEFAULT now()) RETURNS int LANGUAGE plpgsql
SET lock_timeout = '100ms' AS $$
DECLARE
  oldest timestamptz;
  part record;
  dropped int := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.sweep_class(), 1) THEN
    RETURN 0;
  END IF;
  SELECT bugle.day_start(p_now) - history_days * interval '24 hours' INTO oldest FROM bugle.meta;
  FOR part IN
    SELECT c.oid::regclass AS name
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('bugle.history'::regclass, 'bugle.failure'::regclass)
      AND c.relname ~ '_[0-9]{8}$' AND right(c.relname, 8) < to_char(oldest AT TIME ZONE 'UTC', 'YYYYMMDD')
    ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE %s', part.name);
      dropped := dropped + 1;
    EXCEPTION WHEN lock_not_available THEN
      EXIT;   -- one stall is enough for a pass
    END;
  END LOOP;
  DELETE FROM bugle.history_default WHERE finished_at < oldest;
  DELETE FROM bugle.failure_default WHERE failed_at < oldest;
  RETURN dropped + bugle.drop_flow_days(p_now);
END $$;

-- Keeps the small tables small: old cursor rows, the tally, keys whose window is over, what was begun long ago. Returns how many rows were removed.
CREATE FUNCTION bugle.trim(p_now timestamptz DEFAULT now()) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  k bigint;
  removed bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.sweep_class(), 1) THEN
    RETURN 0;
  END IF;
  -- A hundred generations stay: the key of cursor refuses a claim that works from an old state only while that state's row is there.
  DELETE FROM bugle.cursor c USING bugle.newest_cursor newest
  WHERE c.queue = newest.queue AND c.gen < newest.gen - 100;
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  LOOP
    -- A key that an open enqueue is just taking anew is skipped, and the end of its window is looked at again: it may have moved.
    DELETE FROM bugle.job_key WHERE until <= p_now
      AND (queue, key) IN (SELECT queue, key FROM bugle.job_key WHERE until <= p_now LIMIT 10000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS k = ROW_COUNT;
    removed := removed + k;
    EXIT WHEN k < 10000;
  END LOOP;
  -- A worker's other leases may end a lease later than the one of what it had begun.
  DELETE FROM bugle.begun b WHERE b.begun_at < p_now - interval '2 days' AND NOT EXISTS (SELECT FROM bugle.lease l WHERE l.token = b.token);
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  IF (SELECT count(*) FROM (SELECT FROM bugle.tally LIMIT 1000) s) = 1000 THEN   -- an idle system is left alone
    WITH d AS (DELETE FROM bugle.tally RETURNING *)
    INSERT INTO bugle.tally (queue, move, n) SELECT queue, move, sum(n) FROM d GROUP BY queue, move;
  END IF;
  RETURN removed + bugle.trim_ended(p_now);
END $$;

-- After a restore, an import or a switch by logical replication: rows and cursors are bound to the transaction numbers of the
-- cluster that wrote them. Writes every job row anew, forgets cursors and leases. Run it with no worker running. Returns how many rows.
CREATE FUNCTION bugle.rebase() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  q record;
  again bigint;
  total bigint := 0;
BEGIN
  PERFORM bugle.check_read_committed('rebase');
  FOR q IN SELECT id FROM bugle.queue ORDER BY id LOOP
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), q.id);
    -- Leased jobs become ready, as if released.
    INSERT INTO bugle.tally (queue, move, n)
    SELECT q.id, 7, leased FROM bugle.queue_count WHERE queue = q.id AND leased <> 0;
    INSERT INTO bugle.cursor (queue, gen, claimed, paused, claim_limit)
    SELECT queue, gen + 1, claimed, paused, claim_limit FROM bugle.newest_cursor WHERE queue = q.id;
    DELETE FROM bugle.lease WHERE queue = q.id;
    WITH gone AS (DELETE FROM bugle.job WHERE queue = q.id RETURNING *)
    INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload)
    SELECT queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload FROM gone ORDER BY x, id;
    GET DIAGNOSTICS again = ROW_COUNT;
    total := total + again;
  END LOOP;
  PERFORM bugle.forget_ended();
  PERFORM bugle.rebase_messages();
  UPDATE bugle.meta SET system_identifier = (SELECT system_identifier FROM pg_control_system());
  RETURN total;
END $$;

SELECT bugle.make_partitions(now(), 2);   -- the first sweep makes the rest
