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

-- Leases up to p_n ready jobs of a queue to a worker: a part of look(). next_due and next_expiry say when to look again; both NULL after a
-- full claim, which is followed by a look. p_wait: wait for the queue's lock; otherwise got is NULL when somebody else has it.
CREATE FUNCTION bugle.claim(
  p_token bigint, p_queue int, p_worker text, p_n int, p_dur interval, p_wait boolean, p_sweep boolean,
  p_due_from timestamptz DEFAULT '-infinity', p_until_from timestamptz DEFAULT '-infinity',
  OUT got int, OUT next_due timestamptz, OUT next_expiry timestamptz, OUT claimed_at timestamptz
) LANGUAGE plpgsql AS $$   -- with the plans of look()
DECLARE
  c record;             -- the cursor of a lane
  m record;             -- what a scan found
  l smallint;           -- the lane
  room int := p_n;
  seg int := 0;
  own bigint;           -- this transaction's number, once it has one
  keep_x bigint[];
  keep_id bigint[];
  open_x bigint[];
  moved boolean := false;
  not_before timestamptz;
BEGIN
  -- A statement of its own: every later statement has a snapshot younger than the lock.
  IF p_wait THEN
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), p_queue);
  ELSIF NOT pg_try_advisory_xact_lock(bugle.claim_class(), p_queue) THEN
    RETURN;
  END IF;
  claimed_at := clock_timestamp();

  SELECT d.due_at INTO next_due FROM bugle.due d WHERE d.queue = p_queue AND d.due_at >= p_due_from ORDER BY d.due_at LIMIT 1;
  IF next_due <= claimed_at THEN
    moved := bugle.move_due(p_queue, p_due_from, greatest(p_n, 100)) > 0;
  END IF;

  -- All lanes with one statement: most are empty, and most looks are for one job.
  FOR c IN
    SELECT k.*, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax,
      k.pend_x <> '{}' OR EXISTS (SELECT FROM bugle.job j WHERE j.queue = p_queue AND j.lane = k.lane AND (j.x, j.id) > (k.px, k.pid)) AS has_more
    FROM generate_series(0, 3) AS lanes (lane)
    CROSS JOIN LATERAL (SELECT * FROM bugle.cursor n WHERE n.queue = p_queue AND n.lane = lanes.lane ORDER BY n.gen DESC LIMIT 1) k
    ORDER BY lanes.lane
  LOOP
    EXIT WHEN room <= 0;
    IF c.xmax <= c.px THEN
      RAISE EXCEPTION 'the jobs of queue number % come from another database cluster', p_queue
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run SELECT bugle.rebase() once, with no worker running.';
    END IF;
    CONTINUE WHEN NOT c.has_more;
    l := c.lane;
    keep_x := '{}';
    keep_id := '{}';
    -- Rows of this very transaction (moved, swept) belong to the next look: a snapshot does not list its own transaction, so it is
    -- added as open. Read anew before each scan: a write in between may have given it its number.
    own := pg_current_xact_id_if_assigned()::text::bigint;

    IF c.pend_x <> '{}' THEN   -- rows of transactions that were open when the cursor passed them; rare
      SELECT array_agg(s.x) AS xs, array_agg(s.id) AS ids, count(*)::int AS n,
        ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own AS xip
      INTO m
      FROM (
        SELECT j.x, j.id
        FROM unnest(c.pend_x, c.pend_id) AS u (x, id)
        JOIN bugle.job j ON j.queue = p_queue AND j.lane = l AND j.x = u.x AND j.id > u.id
        WHERE u.x IS DISTINCT FROM own
        ORDER BY j.x, j.id LIMIT room
      ) s;
      -- Still open by the scan's own snapshot, or not reached because the room was used up.
      SELECT coalesce(array_agg(u.x), '{}'), coalesce(array_agg(u.id), '{}') INTO keep_x, keep_id
      FROM unnest(c.pend_x, c.pend_id) AS u (x, id)
      WHERE u.x = ANY (m.xip) OR (m.n = room AND u.x > m.xs[m.n]);
      IF m.n = room THEN   -- the last one may be half handed out: remember how far
        keep_x := keep_x || m.xs[m.n];
        keep_id := keep_id || m.ids[m.n];
      END IF;
      IF m.n > 0 THEN
        INSERT INTO bugle.lease (token, seg, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
        SELECT p_token, seg + g.k, p_queue, l, g.x, g.lo - 1, g.x, g.hi, '{}', g.n, p_worker, claim.claimed_at, p_dur, clock_timestamp() + p_dur
        FROM (
          SELECT u.x, min(u.id) AS lo, max(u.id) AS hi, count(*) AS n, row_number() OVER () AS k
          FROM unnest(m.xs, m.ids) AS u (x, id) GROUP BY u.x
        ) g;
        INSERT INTO bugle.cursor VALUES (p_queue, l, c.gen + 1, c.px, c.pid, keep_x, keep_id, c.claimed + m.n);
        seg := seg + m.n;
        room := room - m.n;
        c.gen := c.gen + 1;
        c.claimed := c.claimed + m.n;
        own := pg_current_xact_id_if_assigned()::text::bigint;
        EXIT WHEN room <= 0;
      END IF;
    END IF;

    -- Scan and snapshot are one statement: whatever the cursor passes unseen belongs to a transaction of xip.
    SELECT array_agg(s.x) AS xs, array_agg(s.id) AS ids, count(*)::int AS n,
      ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own AS xip
    INTO m
    FROM (
      SELECT j.x, j.id FROM bugle.job j
      WHERE j.queue = p_queue AND j.lane = l AND (j.x, j.id) > (c.px, c.pid) AND j.x IS DISTINCT FROM own
      ORDER BY j.x, j.id LIMIT room
    ) s;
    CONTINUE WHEN m.n = 0;
    open_x := ARRAY(SELECT v FROM unnest(m.xip) AS v WHERE v > c.px AND v < m.xs[m.n]);
    seg := seg + 1;
    INSERT INTO bugle.lease (token, seg, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
    VALUES (p_token, seg, p_queue, l, c.px, c.pid, m.xs[m.n], m.ids[m.n], open_x, m.n, p_worker, claim.claimed_at, p_dur, clock_timestamp() + p_dur);
    INSERT INTO bugle.cursor VALUES (p_queue, l, c.gen + 1, m.xs[m.n], m.ids[m.n],
      keep_x || open_x, keep_id || array_fill(0::bigint, ARRAY[cardinality(open_x)]), c.claimed + m.n);
    room := room - m.n;
  END LOOP;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue number % does not exist', p_queue USING ERRCODE = 'invalid_parameter_value';
  END IF;

  got := p_n - room;
  next_due := NULL;
  IF room = 0 AND p_sweep THEN   -- a queue whose looks are all full would never learn of ended leases
    PERFORM bugle.sweep(p_queue, p_until_from);
  END IF;
  IF room > 0 THEN   -- a full look is followed by a look: only this one needs a timer
    SELECT d.due_at INTO next_due FROM bugle.due d WHERE d.queue = p_queue AND d.due_at >= p_due_from ORDER BY d.due_at LIMIT 1;
    SELECT e.until INTO next_expiry FROM bugle.lease e WHERE e.queue = p_queue AND e.until >= p_until_from ORDER BY e.until LIMIT 1;
    IF next_expiry <= clock_timestamp() AND bugle.sweep(p_queue, p_until_from) > 0 THEN
      moved := true;
    END IF;
    -- What is past and was not taken is locked by somebody's open transaction: not worth a look at every instant.
    not_before := clock_timestamp() + interval '100 milliseconds';
    next_expiry := CASE WHEN next_expiry <= clock_timestamp() THEN not_before ELSE next_expiry END;
    next_due := CASE WHEN moved THEN claim.claimed_at   -- rows of this transaction: look again at once
      WHEN next_due <= claim.claimed_at THEN not_before ELSE next_due END;
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
-- and the queues ascend, or two looks could wait for each other. For each ask served a row without id: how many jobs it got, and in how
-- many microseconds to look again; asks behind one that was not filled are not served: the queue is empty. Then the jobs, unless they
-- are so many bytes that a slow client would hold the queue's lock while they travel: then inlined is false, and bodies(token) brings them.
-- Alone in its transaction, in READ COMMITTED.
CREATE FUNCTION bugle.look(p_token bigint[], p_queue int[], p_worker text[], p_n int[], p_dur interval[], p_sweep boolean[]) RETURNS TABLE (
  ask int, got int, again_us bigint, claimed_at timestamptz, inlined boolean,
  lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
  kind text, key text, payload jsonb, until timestamptz
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  last int := cardinality(p_token);
  c record;
  empty_queue int;
  -- A stranger who holds one queue's lock must not hold up the others.
  one_queue boolean := p_queue[1] = p_queue[last];
BEGIN
  PERFORM bugle.check_read_committed('look');
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'look was called in a transaction that has already written'
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Call it alone: it lowers the durability of its transaction.';
  END IF;
  -- A claim lost in a crash of the server is a job not yet claimed; any durable ack flushes the claim before it.
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR i IN 1..last LOOP
    CONTINUE WHEN p_queue[i] = empty_queue;
    c := bugle.claim(p_token[i], p_queue[i], p_worker[i], p_n[i], p_dur[i], one_queue, p_sweep[i]);
    ask := i;
    got := coalesce(c.got, 0);
    claimed_at := coalesce(c.claimed_at, clock_timestamp());
    -- Rounded up: never early. NULL when nothing is known (greatest() alone would make that zero).
    again_us := CASE WHEN c.got IS NULL THEN 2000
      WHEN coalesce(c.next_due, c.next_expiry) IS NOT NULL
      THEN ceil(extract(epoch FROM greatest(least(c.next_due, c.next_expiry) - clock_timestamp(), interval '0')) * 1000000) END;
    IF got < p_n[i] THEN
      empty_queue := p_queue[i];
    END IF;
    inlined := got <= 4 OR (SELECT sum(pg_column_size(b.payload)) FROM bugle.bodies(p_token[i]) b) <= 65536;
    id := NULL;
    RETURN NEXT;
    IF got > 0 AND inlined THEN
      RETURN QUERY SELECT i, NULL::int, NULL::bigint, NULL::timestamptz, NULL::boolean, b.* FROM bugle.bodies(p_token[i]) b;
    END IF;
  END LOOP;
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
