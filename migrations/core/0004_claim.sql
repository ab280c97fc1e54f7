-- Handing out jobs, and taking back what nobody finished.
-- These functions pin their plans: the tables are empty or tiny when a session plans, and a sequential scan or a hash join chosen then
-- would be kept while they grow. A job is deleted by its ctid, which is safe because its row is never updated; OFFSET 0 keeps the
-- planner from turning the look-up by key into a join over the queue.
-- A moment is read once into a variable: clock_timestamp() in a WHERE is volatile and never an index condition.

-- Moves jobs whose time has come from due to job. They are handed out by the next look.
CREATE FUNCTION bugle.move_due(p_queue int, p_from timestamptz, p_most int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  this_moment timestamptz := clock_timestamp();
  moved int;
BEGIN
  WITH gone AS (
    DELETE FROM bugle.due d
    WHERE d.ctid = ANY (ARRAY(
      SELECT p.ctid FROM bugle.due p
      WHERE p.queue = p_queue AND p.due_at >= p_from AND p.due_at <= this_moment
      ORDER BY p.due_at, p.id LIMIT p_most
      FOR UPDATE SKIP LOCKED))
    RETURNING d.*
  )
  INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, payload)
  SELECT queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, payload FROM gone ORDER BY due_at, id;
  GET DIAGNOSTICS moved = ROW_COUNT;
  IF moved > 0 THEN
    INSERT INTO bugle.tally (queue, move, n) VALUES (p_queue, 3, moved);
  END IF;
  RETURN moved;
END $$;

-- Takes back the jobs of leases that have ended: ready again with one attempt more, or dead. Returns how many.
-- A job that is being acked in somebody's open transaction is left alone (a claim must never wait for a stranger's commit);
-- its lease is looked at again a second later.
CREATE FUNCTION bugle.sweep(p_queue int, p_from timestamptz DEFAULT '-infinity') RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  this_moment timestamptz := clock_timestamp();
  l record;
  again int;
  died int;
  total int := 0;
BEGIN
  FOR l IN
    SELECT * FROM bugle.lease
    WHERE queue = p_queue AND until >= p_from AND until <= this_moment
    ORDER BY until LIMIT 100
    FOR UPDATE SKIP LOCKED
  LOOP
    WITH gone AS (
      DELETE FROM bugle.job j
      WHERE j.ctid = ANY (ARRAY(
        SELECT h.ctid FROM bugle.job h
        WHERE h.queue = l.queue AND h.lane = l.lane AND (h.x, h.id) > (l.lo_x, l.lo_id) AND (h.x, h.id) <= (l.hi_x, l.hi_id) AND h.x <> ALL (l.skip)
        FOR UPDATE SKIP LOCKED))
      RETURNING j.*
    ), noted AS (
      INSERT INTO bugle.failure (queue, id, attempt, worker, code, message)
      SELECT queue, id, attempt + 1, l.worker, 'lease_expired', 'the lease ended before the job did' FROM gone
    ), buried AS (
      INSERT INTO bugle.dead (id, queue, lane, attempt, max_attempts, enqueued_at, kind, key, payload)
      SELECT id, queue, lane, attempt + 1, max_attempts, enqueued_at, kind, key, payload FROM gone WHERE attempt + 1 >= max_attempts
      RETURNING id
    ), returned AS (
      INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, payload)
      SELECT queue, lane, attempt + 1, id, enqueued_at, due_at, max_attempts, kind, key, payload FROM gone WHERE attempt + 1 < max_attempts
      RETURNING id
    )
    SELECT (SELECT count(*) FROM returned), (SELECT count(*) FROM buried) INTO again, died;
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, move, n FROM (VALUES (8, again), (9, died)) AS v (move, n) WHERE n > 0;
    total := total + again + died;
    PERFORM 1 FROM bugle.job
    WHERE queue = l.queue AND lane = l.lane AND (x, id) > (l.lo_x, l.lo_id) AND (x, id) <= (l.hi_x, l.hi_id) AND x <> ALL (l.skip)
    LIMIT 1;
    IF FOUND THEN
      UPDATE bugle.lease SET until = clock_timestamp() + interval '1 second' WHERE token = l.token AND seg = l.seg;
    ELSE
      DELETE FROM bugle.lease WHERE token = l.token AND seg = l.seg;
    END IF;
  END LOOP;
  RETURN total;
END $$;

-- Claims the rows of transactions that were open when a lane's cursor passed them, and have committed since: a part of look(), rare.
-- keep_x and keep_id: what the cursor still has to wait for.
CREATE FUNCTION bugle.claim_late(
  p_token bigint, p_seg int, p_worker text, p_room int, p_dur interval, p_at timestamptz, c bugle.cursor, own bigint,
  OUT n int, OUT keep_x bigint[], OUT keep_id bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  m record;
BEGIN
  SELECT array_agg(s.x) AS xs, array_agg(s.id) AS ids, count(*)::int AS n,
    ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own AS xip
  INTO m
  FROM (
    SELECT j.x, j.id
    FROM unnest(c.pend_x, c.pend_id) AS u (x, id)
    JOIN bugle.job j ON j.queue = c.queue AND j.lane = c.lane AND j.x = u.x AND j.id > u.id
    WHERE u.x IS DISTINCT FROM own
    ORDER BY j.x, j.id LIMIT p_room
  ) s;
  n := m.n;
  -- Still open by the scan's own snapshot, or not reached because the room was used up.
  SELECT coalesce(array_agg(u.x), '{}'), coalesce(array_agg(u.id), '{}') INTO keep_x, keep_id
  FROM unnest(c.pend_x, c.pend_id) AS u (x, id)
  WHERE u.x = ANY (m.xip) OR (m.n = p_room AND u.x > m.xs[m.n]);
  IF m.n = p_room THEN   -- the last one may be half handed out: remember how far
    keep_x := keep_x || m.xs[m.n];
    keep_id := keep_id || m.ids[m.n];
  END IF;
  IF m.n > 0 THEN
    INSERT INTO bugle.lease (token, seg, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
    SELECT p_token, p_seg + g.k, c.queue, c.lane, g.x, g.lo - 1, g.x, g.hi, '{}', g.n, p_worker, p_at, p_dur, p_at + p_dur
    FROM (
      SELECT u.x, min(u.id) AS lo, max(u.id) AS hi, count(*) AS n, row_number() OVER () AS k
      FROM unnest(m.xs, m.ids) AS u (x, id) GROUP BY u.x
    ) g;
    INSERT INTO bugle.cursor VALUES (c.queue, c.lane, c.gen + 1, c.px, c.pid, keep_x, keep_id, c.claimed + m.n);
  END IF;
END $$;

-- The jobs of a lease: those of its claim that have not ended since.
CREATE FUNCTION bugle.bodies(p_token bigint) RETURNS TABLE (
  lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
  kind text, key text, payload jsonb, until timestamptz
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN QUERY
  SELECT l.lane, j.x, j.id, (j.attempt + 1)::smallint, j.max_attempts, j.enqueued_at, j.due_at, j.kind, j.key, j.payload, l.until
  FROM bugle.lease l
  CROSS JOIN LATERAL (
    SELECT * FROM bugle.job j
    WHERE j.queue = l.queue AND j.lane = l.lane AND (j.x, j.id) > (l.lo_x, l.lo_id) AND (j.x, j.id) <= (l.hi_x, l.hi_id) AND j.x <> ALL (l.skip)
    ORDER BY j.x, j.id LIMIT l.n
  ) j
  WHERE l.token = p_token;
END $$;

-- One look: claims for all who wait (rule 3), each ask with a token of its own, in the order of the asks; those of a queue stand together
-- and the queues ascend, or two looks could wait for each other. The jobs of each ask, then a row without id: how many they are, and in
-- how many microseconds to look again (NULL: nothing is known; after a full claim one looks again anyway). Asks behind one that was not
-- filled are not served: the queue is empty. When the jobs of a lane are so many bytes that a slow client would hold the queue's lock while
-- they travel, inlined is false and bodies(token) brings them. Alone in its transaction, in READ COMMITTED.
-- Few statements: a look after a long sleep finds all caches cold, and then each of them costs a tenth of a millisecond.
CREATE FUNCTION bugle.look(p_token bigint[], p_queue int[], p_worker text[], p_n int[], p_dur interval[], p_sweep boolean[]) RETURNS TABLE (
  ask int, got int, again_us bigint, claimed_at timestamptz, inlined boolean,
  lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
  kind text, key text, payload jsonb, until timestamptz
) LANGUAGE plpgsql
-- A server process that waits for a lock does not notice that its client has given up: it must, before that client tries again.
SET lock_timeout = '5s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  last int := cardinality(p_token);
  -- A stranger who holds one queue's lock must not hold up the others.
  one_queue boolean := p_queue[1] = p_queue[last];
  empty_queue int;
  moment timestamptz;
  c record;             -- the cursor of a lane, and what else is there
  late_n int;           -- rows of transactions that the cursor had to wait for
  keep_x bigint[];      -- those that it has to wait for still
  keep_id bigint[];
  own bigint;           -- this transaction's number, once it has one
  seg int;
  room int;
  n int;
  next_due timestamptz;
  next_expiry timestamptz;
  moved boolean;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bugle.check_read_committed('look');
  END IF;
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'look was called in a transaction that has already written'
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Call it alone: it lowers the durability of its transaction.';
  END IF;
  -- A claim lost in a crash of the server is a job not yet claimed; any durable ack flushes the claim before it.
  IF set_config('synchronous_commit', 'off', true) IS NULL THEN
    RETURN;
  END IF;
  FOR i IN 1..last LOOP
    CONTINUE WHEN p_queue[i] = empty_queue;
    -- The lock alone: every later statement has a snapshot younger than it. (An IF evaluates it without a statement of its own.)
    IF one_queue THEN
      IF pg_advisory_xact_lock(bugle.claim_class(), p_queue[i]) IS NULL THEN
        RETURN;
      END IF;
    ELSIF NOT pg_try_advisory_xact_lock(bugle.claim_class(), p_queue[i]) THEN
      ask := i;
      got := 0;
      again_us := 2000;
      claimed_at := clock_timestamp();
      RETURN NEXT;
      empty_queue := p_queue[i];
      CONTINUE;
    END IF;
    moment := clock_timestamp();
    room := p_n[i];
    seg := 0;
    moved := false;
    next_due := NULL;
    next_expiry := NULL;
    FOR c IN
      SELECT k.cur, k.lane, k.px, k.pid, k.gen, k.claimed, k.pend_x,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax,
        k.pend_x <> '{}' OR EXISTS (SELECT FROM bugle.job j WHERE j.queue = p_queue[i] AND j.lane = k.lane AND (j.x, j.id) > (k.px, k.pid)) AS has_more,
        (SELECT d.due_at FROM bugle.due d WHERE d.queue = p_queue[i] ORDER BY d.due_at LIMIT 1) AS due,
        (SELECT e.until FROM bugle.lease e WHERE e.queue = p_queue[i] ORDER BY e.until LIMIT 1) AS expiry
      FROM generate_series(0, 3) AS lanes (lane)
      CROSS JOIN LATERAL (SELECT n AS cur, n.* FROM bugle.cursor n WHERE n.queue = p_queue[i] AND n.lane = lanes.lane ORDER BY n.gen DESC LIMIT 1) k
      ORDER BY lanes.lane
    LOOP
      IF c.xmax <= c.px THEN
        RAISE EXCEPTION 'the jobs of queue number % come from another database cluster', p_queue[i]
          USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run SELECT bugle.rebase() once, with no worker running.';
      END IF;
      next_due := c.due;
      next_expiry := c.expiry;
      CONTINUE WHEN room <= 0 OR NOT c.has_more;
      -- Rows of this very transaction (moved, swept) belong to the next look: a snapshot does not list its own transaction, so it is
      -- added as open. Read anew before each scan: a write in between may have given it its number.
      own := pg_current_xact_id_if_assigned()::text::bigint;
      late_n := 0;
      keep_x := '{}';
      keep_id := '{}';
      IF c.pend_x <> '{}' THEN
        SELECT l.* INTO late_n, keep_x, keep_id FROM bugle.claim_late(p_token[i], seg, p_worker[i], room, p_dur[i], moment, c.cur, own) l;
        IF late_n > 0 THEN
          RETURN QUERY SELECT i, NULL::int, NULL::bigint, moment, true, b.* FROM bugle.bodies(p_token[i]) b WHERE b.lane = c.lane;
          seg := seg + late_n;
          room := room - late_n;
          own := pg_current_xact_id_if_assigned()::text::bigint;
          CONTINUE WHEN room <= 0;
        END IF;
      END IF;
      seg := seg + 1;
      -- Scan and snapshot are one statement: whatever the cursor passes unseen belongs to a transaction that the snapshot lists.
      RETURN QUERY
      WITH taken AS (
        SELECT j.* FROM bugle.job j
        WHERE j.queue = p_queue[i] AND j.lane = c.lane AND (j.x, j.id) > (c.px, c.pid) AND j.x IS DISTINCT FROM own
        ORDER BY j.x, j.id LIMIT room
      ), hi AS (
        SELECT t.x, t.id, totals.n, totals.bytes <= 65536 AS inlined,
          ARRAY(SELECT v FROM unnest(ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own) AS v WHERE v > c.px AND v < t.x) AS open_x
        FROM (SELECT t.x, t.id FROM taken t ORDER BY t.x DESC, t.id DESC LIMIT 1) t
        CROSS JOIN (SELECT count(*)::int AS n, sum(pg_column_size(t.payload)) AS bytes FROM taken t) totals
      ), leased AS (
        INSERT INTO bugle.lease (token, seg, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
        SELECT p_token[i], seg, p_queue[i], c.lane, c.px, c.pid, hi.x, hi.id, hi.open_x, hi.n, p_worker[i], moment, p_dur[i], moment + p_dur[i] FROM hi
      ), passed AS (
        INSERT INTO bugle.cursor (queue, lane, gen, px, pid, pend_x, pend_id, claimed)
        SELECT p_queue[i], c.lane, c.gen + CASE WHEN late_n > 0 THEN 2 ELSE 1 END, hi.x, hi.id, keep_x || hi.open_x,
          keep_id || array_fill(0::bigint, ARRAY[cardinality(hi.open_x)]), c.claimed + late_n + hi.n
        FROM hi
      )
      SELECT i, NULL::int, NULL::bigint, moment, hi.inlined, t.lane, t.x, t.id, (t.attempt + 1)::smallint, t.max_attempts, t.enqueued_at, t.due_at,
        t.kind, t.key, CASE WHEN hi.inlined THEN t.payload END, moment + p_dur[i]
      FROM taken t CROSS JOIN hi
      ORDER BY t.x, t.id;
      GET DIAGNOSTICS n = ROW_COUNT;
      room := room - n;
    END LOOP;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'queue number % does not exist', p_queue[i] USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF next_due <= moment THEN
      moved := bugle.move_due(p_queue[i], '-infinity', greatest(p_n[i], 100)) > 0;
      SELECT d.due_at INTO next_due FROM bugle.due d WHERE d.queue = p_queue[i] ORDER BY d.due_at LIMIT 1;
    END IF;
    -- A queue whose looks are all full would never learn of ended leases: p_sweep.
    IF next_expiry <= moment AND (room > 0 OR p_sweep[i]) THEN
      moved := bugle.sweep(p_queue[i]) > 0 OR moved;
      SELECT e.until INTO next_expiry FROM bugle.lease e WHERE e.queue = p_queue[i] ORDER BY e.until LIMIT 1;
    ELSIF room < p_n[i] THEN
      next_expiry := least(next_expiry, moment + p_dur[i]);   -- those just claimed
    END IF;
    IF room > 0 THEN
      empty_queue := p_queue[i];
    END IF;
    ask := i;
    got := p_n[i] - room;
    again_us := bugle.until_next(least(next_due, next_expiry), moment, moved);
    claimed_at := moment;
    RETURN NEXT;
  END LOOP;
END $$;

-- In how many microseconds to look again, rounded up: never early. NULL when nothing is known (greatest() alone would make that zero).
-- At once for rows that the look itself moved, and for what has become due since it looked. What was past already and was not taken is
-- locked by somebody's open transaction: not worth a look at every instant.
CREATE FUNCTION bugle.until_next(p_at timestamptz, p_looked_at timestamptz, p_moved boolean) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF p_moved THEN
    RETURN 0;
  ELSIF p_at <= p_looked_at THEN
    RETURN 100000;
  END IF;
  RETURN CASE WHEN p_at IS NOT NULL THEN greatest(ceil(extract(epoch FROM p_at - clock_timestamp()) * 1000000), 0) END;
END $$;

-- Extends the leases among p_tokens that a worker holds and that have not ended. A token not returned: that lease was lost.
CREATE FUNCTION bugle.renew(p_tokens bigint[], p_worker text) RETURNS TABLE (token bigint, until timestamptz) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN QUERY
  WITH extended AS (
    UPDATE bugle.lease l SET until = clock_timestamp() + l.dur
    WHERE l.token = ANY (p_tokens) AND l.worker = p_worker AND l.until > clock_timestamp()
    RETURNING l.token, l.until
  ) SELECT e.token, min(e.until) FROM extended e GROUP BY e.token;
END $$;
