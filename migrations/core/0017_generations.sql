-- Generations of the log: made ahead, begun by size or age, dropped when nobody can see anything of them. Any node may call these at any time;
-- whoever holds the lock does the work, the others do nothing.

ALTER TABLE bugle.meta
  ADD COLUMN generation_age interval NOT NULL DEFAULT '6 hours' CHECK (generation_age > interval '0'),
  ADD COLUMN generation_messages bigint NOT NULL DEFAULT 20000000 CHECK (generation_messages BETWEEN 1 AND 4000000000);

-- How far the log had come at some moments: from a time to a seq, more finely than by generations.
CREATE TABLE bugle.seq_mark (
  at timestamptz PRIMARY KEY,
  seq bigint NOT NULL
);

-- A seq behind which everything pushed at p_at or later is found, and something older perhaps: look_messages leaves that out by its time. A
-- message's time is read a moment after its seq is taken: hence the second.
CREATE FUNCTION bugle.seq_before(p_at timestamptz) RETURNS bigint LANGUAGE sql AS $$
  SELECT greatest(
    (SELECT m.seq FROM bugle.seq_mark m WHERE m.at <= p_at - interval '1 second' ORDER BY m.at DESC LIMIT 1),
    (SELECT max(g.no)::bigint << 32 FROM bugle.generation g WHERE g.opened_at <= p_at - interval '1 second'),
    0)
$$;

-- A seq up to which everything pushed before p_at is found, and something younger perhaps: the other end of it.
CREATE FUNCTION bugle.seq_after(p_at timestamptz) RETURNS bigint LANGUAGE sql AS $$
  SELECT least(
    (SELECT m.seq FROM bugle.seq_mark m WHERE m.at >= p_at + interval '1 second' ORDER BY m.at LIMIT 1),
    (SELECT min(g.no)::bigint << 32 FROM bugle.generation g WHERE g.opened_at >= p_at + interval '1 second'),
    9223372036854775807)
$$;

CREATE FUNCTION bugle.message_table(p_name text, p_no int) RETURNS regclass LANGUAGE sql STABLE AS $$
  SELECT to_regclass(format('%s%I', 'bugle.', p_name || '_' || p_no))
$$;

-- Makes the generations that come next, so that p_ahead of them are there. Returns how many were made.
CREATE FUNCTION bugle.make_generations(p_ahead int DEFAULT 2) RETURNS int LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
  newest int;
  made int := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.broker_class(), 3) THEN
    RETURN 0;
  END IF;
  SELECT (s.last_value >> 32)::int INTO newest FROM bugle.message_seq s;
  FOR gen IN newest + 1..newest + p_ahead LOOP
    CONTINUE WHEN bugle.message_table('message', gen) IS NOT NULL;
    BEGIN
      PERFORM bugle.make_generation(gen);
      made := made + 1;
    EXCEPTION WHEN lock_not_available THEN
      RETURN made;   -- the next pass tries again
    END;
  END LOOP;
  RETURN made;
END $$;

-- Begins the next generation when this one is old or large enough (p_force: in any case). Returns its number, NULL: this one goes on. The
-- sequence jumps for everybody at once, whatever becomes of this transaction: the next tables must have been committed before.
CREATE FUNCTION bugle.begin_generation(p_now timestamptz DEFAULT now(), p_force boolean DEFAULT false) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  newest int;
  written bigint;
  is_due boolean;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.broker_class(), 3) THEN
    RETURN NULL;
  END IF;
  SELECT (s.last_value >> 32)::int, s.last_value & 4294967295 INTO newest, written FROM bugle.message_seq s;
  INSERT INTO bugle.generation (no) VALUES (newest) ON CONFLICT DO NOTHING;   -- a pass that failed after its jump
  SELECT p_force OR written > 0 AND (g.opened_at <= p_now - m.generation_age OR written >= m.generation_messages) INTO is_due
  FROM bugle.generation g, bugle.meta m WHERE g.no = newest;
  IF NOT is_due OR bugle.message_table('message', newest + 1) IS NULL OR EXISTS (
    SELECT FROM pg_class c WHERE c.oid = bugle.message_table('message', newest + 1) AND c.xmin = pg_current_xact_id()::xid
  ) THEN
    RETURN NULL;
  END IF;
  INSERT INTO bugle.generation (no) VALUES (newest + 1);
  PERFORM setval('bugle.message_seq', (newest + 1)::bigint << 32);
  RETURN newest + 1;
END $$;

-- Moves the floors of queues that were told to forget: messages up to the floor are invisible. By whole generations, so nothing goes early.
-- retention: all messages that old; completed retention: those that every group has passed; time to live and longest wait: as retention, since
-- look_messages hands them out no more. Returns how many floors moved.
CREATE FUNCTION bugle.advance_floors(p_now timestamptz DEFAULT now()) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  moved int;
BEGIN
  WITH wanted AS (
    SELECT q.queue, q.floor,
      (SELECT max(g.no)::bigint << 32 FROM bugle.generation g WHERE g.opened_at <= p_now - make_interval(secs => least(
        CASE WHEN q.retention_enabled THEN nullif(q.retention_seconds, 0) END, nullif(q.ttl_seconds, 0), nullif(q.wait_seconds_max, 0)))) AS old,
      (SELECT max(g.no)::bigint << 32 FROM bugle.generation g WHERE g.opened_at <= p_now - make_interval(secs => nullif(q.completed_retention_seconds, 0))) AS old_and_done
    FROM bugle.message_queue q
    WHERE coalesce(q.retention_seconds, 0) + coalesce(q.ttl_seconds, 0) + coalesce(q.wait_seconds_max, 0) + coalesce(q.completed_retention_seconds, 0) > 0
  ), next AS (
    SELECT w.queue, greatest(w.old, CASE WHEN w.old_and_done > w.floor THEN least(w.old_and_done, bugle.done_up_to(w.queue)) END) AS floor
    FROM wanted w
  )
  UPDATE bugle.message_queue q SET floor = n.floor FROM next n WHERE q.queue = n.queue AND n.floor > q.floor;
  GET DIAGNOSTICS moved = ROW_COUNT;
  RETURN moved;
END $$;

-- Up to which seq every group of a queue has done everything; 0 without groups.
CREATE FUNCTION bugle.done_up_to(p_queue int) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM bugle.consumer_group g WHERE g.queue = p_queue) THEN
    RETURN 0;
  END IF;
  RETURN coalesce((
    SELECT min(greatest(t.cur, g.start))
    FROM bugle.partition p
    JOIN bugle.consumer_group g ON g.queue = p.queue
    LEFT JOIN LATERAL (SELECT c.cur FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
    CROSS JOIN LATERAL (SELECT m.seq FROM bugle.message m WHERE m.part = p.id ORDER BY m.seq DESC LIMIT 1) l
    WHERE p.queue = p_queue AND l.seq > greatest(t.cur, g.start)
  ), bugle.newest_seq());
END $$;

-- The oldest tables of which nobody can see anything any more, and the statements that drop them, to be run one by one and outside of a
-- transaction: DETACH CONCURRENTLY holds nobody up. What each partition's last number was is kept before. No row: there is none.
CREATE FUNCTION bugle.droppable_tables() RETURNS SETOF text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  newest int;
  t record;
  seen boolean;
BEGIN
  SELECT (s.last_value >> 32)::int INTO newest FROM bugle.message_seq s;
  FOR t IN
    SELECT c.relname AS name, i.inhparent::regclass::text AS parent, substring(c.relname FROM '[0-9]+$')::int AS no,
      i.inhdetachpending AS pending, i.inhparent = 'bugle.message'::regclass AS is_log
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('bugle.message'::regclass, 'bugle.message_key'::regclass)
    ORDER BY no, name
  LOOP
    CONTINUE WHEN t.no >= newest;
    IF NOT t.pending THEN
      IF t.is_log THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM bugle.partition p JOIN bugle.message_queue q ON q.queue = p.queue
          WHERE EXISTS (SELECT FROM bugle.%I m WHERE m.part = p.id AND m.seq > q.floor))', t.name) INTO seen;
      ELSE
        seen := t.no >= bugle.oldest_key_generation();
      END IF;
      CONTINUE WHEN seen;
      IF t.is_log THEN
        -- Read by a push only when the log has no row of the partition left.
        EXECUTE format('UPDATE bugle.partition p SET base_n = l.n FROM bugle.partition k
          CROSS JOIN LATERAL (SELECT m.n FROM bugle.%I m WHERE m.part = k.id ORDER BY m.seq DESC LIMIT 1) l
          WHERE p.id = k.id AND l.n > p.base_n', t.name);
      END IF;
    END IF;
    RETURN NEXT format('ALTER TABLE %s DETACH PARTITION bugle.%I %s', t.parent, t.name, CASE WHEN t.pending THEN 'FINALIZE' ELSE 'CONCURRENTLY' END);
    RETURN NEXT format('DROP TABLE bugle.%I', t.name);
    RETURN;   -- the others at the next pass
  END LOOP;
END $$;

-- Keeps the small tables small, and notes how far the log has come. Returns how many rows were removed.
CREATE FUNCTION bugle.trim_messages(p_now timestamptz DEFAULT now()) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  m bugle.meta;
  mark pg_snapshot;
  k bigint;
  removed bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(bugle.broker_class(), 3) THEN
    RETURN 0;
  END IF;
  INSERT INTO bugle.seq_mark (at, seq)
  SELECT clock_timestamp(), bugle.newest_seq()
  WHERE bugle.newest_seq() > coalesce((SELECT s.seq FROM bugle.seq_mark s ORDER BY s.at DESC LIMIT 1), 0)
  ON CONFLICT DO NOTHING;
  -- Some versions stay: the key refuses whoever works from an old one only while the next one's row is there.
  DELETE FROM bugle.group_cursor c
  USING (SELECT part, grp, max(ver) AS ver FROM bugle.group_cursor GROUP BY part, grp) newest
  WHERE c.part = newest.part AND c.grp = newest.grp AND c.ver < newest.ver - 20;
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  DELETE FROM bugle.group_cursor c WHERE NOT EXISTS (SELECT FROM bugle.consumer_group g WHERE g.id = c.grp);
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  DELETE FROM bugle.message_count c WHERE c.at < p_now - interval '10 seconds';
  GET DIAGNOSTICS k = ROW_COUNT;
  removed := removed + k;
  -- What goes is older than every transaction that was open at the mark, and the mark is ten minutes old.
  SELECT * INTO m FROM bugle.meta;
  IF p_now >= m.news_mark_at + interval '10 minutes' THEN
    DELETE FROM bugle.news w WHERE w.xid < m.news_mark;
    GET DIAGNOSTICS k = ROW_COUNT;
    removed := removed + k;
    UPDATE bugle.meta SET news_from = news_mark, news_mark = pg_snapshot_xmin(pg_current_snapshot()), news_mark_at = p_now;
  END IF;
  -- Whoever numbers the tail is not waited for.
  IF pg_try_advisory_xact_lock(bugle.broker_class(), 2) THEN
    SELECT t.seen INTO mark FROM bugle.tail_mark t ORDER BY t.no DESC LIMIT 1;
    DELETE FROM bugle.tail t WHERE t.xid < pg_snapshot_xmin(mark);
    GET DIAGNOSTICS k = ROW_COUNT;
    removed := removed + k;
    DELETE FROM bugle.tail_mark t WHERE t.no < (SELECT max(h.no) FROM bugle.tail_mark h);
  END IF;
  RETURN removed;
END $$;

-- A part of rebase(): news and tail carry numbers of another cluster's transactions. What has no number yet keeps its place in the tail.
CREATE FUNCTION bugle.rebase_messages() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  mark pg_snapshot;
  own text := pg_current_xact_id()::text;
BEGIN
  SELECT t.seen INTO mark FROM bugle.tail_mark t ORDER BY t.no DESC LIMIT 1;
  DELETE FROM bugle.tail t WHERE pg_visible_in_snapshot(t.xid, mark);
  UPDATE bugle.tail SET xid = pg_current_xact_id();
  INSERT INTO bugle.tail_mark (seen) VALUES ((own || ':' || own || ':')::pg_snapshot);   -- before this transaction
  DELETE FROM bugle.news;
  UPDATE bugle.meta SET news_from = '0', news_mark = '0';
END $$;
