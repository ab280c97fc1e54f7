-- Handing out jobs, and taking back what nobody finished.
-- These functions pin their plans: the tables are empty or tiny when a session plans, and a sequential scan or a hash join chosen then
-- would be kept while they grow; and a plan that expects many rows would be compiled, which takes longer than the rows. A job is deleted by
-- its ctid, which is safe because its row is never updated; OFFSET 0 keeps the planner from turning the look-up by key into a join over
-- the queue.
-- A moment is read once into a variable: clock_timestamp() in a WHERE is volatile and never an index condition.

-- Moves jobs whose time has come from due to job. They are handed out by the next look.
CREATE FUNCTION bugle.move_due(p_queue int, p_from timestamptz, p_most int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
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
  INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload)
  SELECT queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload FROM gone ORDER BY due_at, id;
  GET DIAGNOSTICS moved = ROW_COUNT;
  IF moved > 0 THEN
    INSERT INTO bugle.tally (queue, move, n) VALUES (p_queue, 3, moved);
  END IF;
  RETURN moved;
END $$;

-- Where the jobs of a lease are: those of its claim that have not ended since.
-- Each range in three parts: an index scan for (x, id) <= (hi_x, hi_id) would go on to the last row of the transaction hi_x, however many
-- it wrote. OFFSET 0 as above.
CREATE FUNCTION bugle.places_of(l bugle.lease) RETURNS SETOF tid LANGUAGE sql STABLE AS $$
  SELECT p.place
  FROM unnest(l.lane, l.lo_x, l.lo_id, l.hi_x, l.hi_id) AS r (lane, lo_x, lo_id, hi_x, hi_id)
  CROSS JOIN LATERAL (
    SELECT k.ctid AS place FROM bugle.job k
    WHERE k.queue = l.queue AND k.lane = r.lane AND k.x = r.lo_x AND k.id > r.lo_id
      AND k.id <= CASE WHEN r.hi_x = r.lo_x THEN r.hi_id ELSE 9223372036854775807 END AND k.x <> ALL (l.skip)
    UNION ALL
    SELECT k.ctid FROM bugle.job k
    WHERE k.queue = l.queue AND k.lane = r.lane AND k.x > r.lo_x AND k.x < r.hi_x AND k.x <> ALL (l.skip)
    UNION ALL
    SELECT k.ctid FROM bugle.job k
    WHERE k.queue = l.queue AND k.lane = r.lane AND k.x = r.hi_x AND k.id <= r.hi_id AND r.hi_x > r.lo_x AND k.x <> ALL (l.skip)
    OFFSET 0
  ) p
$$;

CREATE FUNCTION bugle.jobs_of(l bugle.lease) RETURNS SETOF bugle.job LANGUAGE sql STABLE AS $$
  SELECT j.* FROM bugle.places_of(l) AS p (place) CROSS JOIN LATERAL (SELECT * FROM bugle.job k WHERE k.ctid = p.place OFFSET 0) j
$$;

-- Takes back the jobs of leases that have ended: ready again with one attempt more, or dead. Returns how many.
-- They are marked as lost: any of them may have killed the worker. Of those that were lost before and have their last attempt, a worker that
-- says which it begins (bugle.begun) runs one at a time: those that it had not begun are spared, ready again as they were.
-- A job that is being acked in somebody's open transaction is left alone (a claim must never wait for a stranger's commit);
-- its lease is looked at again a second later.
CREATE FUNCTION bugle.sweep(p_queue int, p_from timestamptz DEFAULT '-infinity') RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  this_moment timestamptz := clock_timestamp();
  l bugle.lease;
  says boolean;
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
    says := EXISTS (SELECT FROM bugle.begun b WHERE b.worker = l.worker);
    WITH gone AS (
      DELETE FROM bugle.job j
      WHERE j.ctid = ANY (ARRAY(
        SELECT h.ctid
        FROM bugle.places_of(l) AS p (place)
        CROSS JOIN LATERAL (SELECT k.ctid FROM bugle.job k WHERE k.ctid = p.place FOR UPDATE SKIP LOCKED) h))
      RETURNING j.queue, j.lane, j.attempt, j.id, j.enqueued_at, j.due_at, j.max_attempts, j.kind, j.key, j.payload,
        coalesce(j.extra, '{}') || '{"lost": true}' AS extra,
        says AND j.attempt + 1 >= j.max_attempts AND coalesce(j.extra ? 'lost', false)
          AND NOT EXISTS (SELECT FROM bugle.begun b WHERE b.worker = l.worker AND b.token = l.token AND b.id = j.id) AS spared
    ), noted AS (
      INSERT INTO bugle.failure (queue, id, attempt, worker, code, message)
      SELECT queue, id, attempt + 1, l.worker, 'lease_expired', 'the lease ended before the job did' FROM gone WHERE NOT spared
    ), buried AS (
      INSERT INTO bugle.dead (id, queue, lane, attempt, max_attempts, enqueued_at, kind, key, extra, payload, worker, code, message)
      SELECT id, queue, lane, attempt + 1, max_attempts, enqueued_at, kind, key, extra, payload, l.worker, 'lease_expired', 'the lease ended before the job did'
      FROM gone WHERE attempt + 1 >= max_attempts AND NOT spared
      RETURNING id
    ), told AS (
      INSERT INTO bugle.ended (queue, state, ids) SELECT p_queue, 'dead', array_agg(b.id) FROM buried b HAVING count(*) > 0
    ), returned AS (
      INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload)
      SELECT queue, lane, attempt + CASE WHEN spared THEN 0 ELSE 1 END, id, enqueued_at, due_at, max_attempts, kind, key, extra, payload
      FROM gone WHERE attempt + 1 < max_attempts OR spared
      RETURNING id
    )
    SELECT (SELECT count(*) FROM returned), (SELECT count(*) FROM buried) INTO again, died;
    INSERT INTO bugle.tally (queue, move, n) SELECT p_queue, move, n FROM (VALUES (8, again), (9, died)) AS v (move, n) WHERE n > 0;
    total := total + again + died;
    PERFORM 1 FROM bugle.jobs_of(l) LIMIT 1;
    IF FOUND THEN
      UPDATE bugle.lease SET until = clock_timestamp() + interval '1 second' WHERE token = l.token;
    ELSE
      DELETE FROM bugle.lease WHERE token = l.token;
    END IF;
  END LOOP;
  RETURN total;
END $$;

-- The rows of transactions that were open when the cursor c passed them, and have committed since, at most p_room: a part of look(), rare.
-- lane, x and the bounds lo and hi of the id: the ranges that they are in. keep: what the cursor still has to wait for.
CREATE FUNCTION bugle.find_late(
  c bugle.cursor, own bigint, p_room int,
  OUT n int, OUT lane smallint[], OUT x bigint[], OUT lo bigint[], OUT hi bigint[], OUT keep bugle.pending[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  m record;
BEGIN
  SELECT array_agg(s.lane) AS lanes, array_agg(s.x) AS xs, array_agg(s.id) AS ids, count(*)::int AS n,
    ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own AS xip
  INTO m
  FROM (
    SELECT j.lane, j.x, j.id
    FROM unnest(c.pend) AS u
    CROSS JOIN LATERAL (   -- LIMIT keeps the planner from reading the whole queue for a join
      SELECT k.lane, k.x, k.id FROM bugle.job k
      WHERE k.queue = c.queue AND k.lane = u.lane AND k.x = u.x AND k.id > u.id
      ORDER BY k.id LIMIT p_room
    ) j
    WHERE u.x IS DISTINCT FROM own
    ORDER BY j.lane, j.x, j.id LIMIT p_room
  ) s;
  n := m.n;
  SELECT coalesce(array_agg(g.lane), '{}'), coalesce(array_agg(g.x), '{}'), coalesce(array_agg(g.lo - 1), '{}'), coalesce(array_agg(g.hi), '{}')
  INTO lane, x, lo, hi
  FROM (
    SELECT u.lane, u.x, min(u.id) AS lo, max(u.id) AS hi
    FROM unnest(m.lanes, m.xs, m.ids) AS u (lane, x, id) GROUP BY u.lane, u.x
  ) g;
  -- Still open by the scan's own snapshot, or not reached because the room was used up; of the last one, remember how far.
  keep := ARRAY(
    SELECT ROW(u.lane, u.x, CASE WHEN (u.lane, u.x) = (m.lanes[m.n], m.xs[m.n]) THEN m.ids[m.n] ELSE u.id END)::bugle.pending
    FROM unnest(c.pend) AS u
    WHERE u.x = ANY (m.xip) OR (m.n = p_room AND (u.lane, u.x) >= (m.lanes[m.n], m.xs[m.n])));
END $$;

-- The jobs of lease p_token, as look() shows them.
CREATE FUNCTION bugle.bodies(p_token bigint) RETURNS TABLE (
  lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
  kind text, key text, extra jsonb, payload jsonb, until timestamptz
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT j.lane, j.x, j.id, (j.attempt + 1)::smallint, j.max_attempts, j.enqueued_at, j.due_at, j.kind, j.key, j.extra, j.payload, l.until
  FROM bugle.lease l
  CROSS JOIN LATERAL bugle.jobs_of(l) j
  WHERE l.token = p_token;
END $$;

-- A limit, how many jobs are held under it, and when the first of their leases ends. No row: there is no such limit any more.
CREATE FUNCTION bugle.held_under(p_limit int, p_moment timestamptz) RETURNS TABLE (most int, n int, until timestamptz) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT m.most, coalesce(sum(l.n), 0)::int, min(l.until)
  FROM bugle.claim_limit m
  LEFT JOIN bugle.queue q ON q.claim_limit = m.id
  LEFT JOIN LATERAL (
    SELECT e.until, (SELECT count(*) FROM bugle.places_of(e)) AS n FROM bugle.lease e WHERE e.queue = q.id AND e.until > p_moment OFFSET 0
  ) l ON l.n > 0
  WHERE m.id = p_limit
  GROUP BY m.most;
END $$;

-- How many jobs may be claimed under a limit, and when the first lease ends that holds one of them: a part of look(). Claims under one limit
-- come one after the other, each sees those before it. room NULL: somebody else claims under it, and p_wait is false.
CREATE FUNCTION bugle.limit_room(p_limit int, p_wait boolean, p_moment timestamptz, OUT room int, OUT expiry timestamptz) LANGUAGE plpgsql AS $$
BEGIN
  IF p_wait THEN
    PERFORM pg_advisory_xact_lock(bugle.limit_class(), p_limit);
  ELSIF NOT pg_try_advisory_xact_lock(bugle.limit_class(), p_limit) THEN
    RETURN;
  END IF;
  SELECT greatest(h.most - h.n, 0), h.until INTO room, expiry FROM bugle.held_under(p_limit, p_moment) h;
  IF NOT FOUND THEN   -- it was lifted a moment ago
    room := 2147483647;
  END IF;
END $$;

-- One look: claims for all who wait (rule 3), each ask with a token of its own, in the order of the asks; those of a queue stand together
-- and the queues ascend, or two looks could wait for each other. The jobs of each ask, then a row without id: how many they are, and in
-- how many microseconds to look again (NULL: nothing is known; after a full claim one looks again anyway), got -1: somebody else looks. Asks behind one that was not
-- filled are not served: the queue is empty. When the jobs of an ask are so many bytes that a slow client would hold the queue's lock while
-- they travel, inlined is false and bodies(token) brings them. Alone in its transaction, in READ COMMITTED.
-- p_due_from, p_until_from: nothing is due before, no lease ends before, by what the caller knows ('-infinity': nothing). While somebody
-- holds a snapshot, every entry that is gone would be walked over.
-- Few and simple statements: a look after a long sleep finds all caches cold, and then each of them costs a tenth of a millisecond.
CREATE FUNCTION bugle.look(
  p_token bigint[], p_queue int[], p_worker text[], p_n int[], p_dur interval[], p_sweep boolean[],
  p_due_from timestamptz[], p_until_from timestamptz[]
) RETURNS TABLE (
  ask int, got int, again_us bigint, claimed_at timestamptz, next_due timestamptz, next_expiry timestamptz, inlined boolean,
  lane smallint, x bigint, id bigint, attempt smallint, max_attempts smallint, enqueued_at timestamptz, due_at timestamptz,
  kind text, key text, extra jsonb, payload jsonb, until timestamptz
) LANGUAGE plpgsql
-- A server process that waits for a lock does not notice that its client has given up: it must, before that client tries again.
SET lock_timeout = '5s' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  last int := cardinality(p_token);
  -- A stranger who holds one queue's lock must not hold up the others.
  one_queue boolean := p_queue[1] = p_queue[last];
  empty_queue int;
  moment timestamptz;
  c record;             -- the cursor, and what else is there
  own bigint;           -- this transaction's number, once it has one
  late_n int;           -- rows of transactions that the cursor had to wait for, and the ranges that they are in
  late_lane smallint[];
  late_x bigint[];
  late_lo bigint[];
  late_hi bigint[];
  keep bugle.pending[]; -- what it still has to wait for
  most int;
  limit_leaves int;     -- for this ask; NULL: nobody knows
  limit_expiry timestamptz;
  is_limited boolean;
  room int;
  step int;
  n int;
  due timestamptz;
  expiry timestamptz;
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
      got := -1;   -- not looked at
      again_us := 2000;
      claimed_at := clock_timestamp();
      RETURN NEXT;
      empty_queue := p_queue[i];
      CONTINUE;
    END IF;
    moment := clock_timestamp();
    SELECT k AS cur, k.gen, k.px, k.pid, k.pend, k.claimed, k.paused, k.claim_limit, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax,
      (SELECT d.due_at FROM bugle.due d WHERE d.queue = p_queue[i] AND d.due_at >= p_due_from[i] ORDER BY d.due_at LIMIT 1) AS due,
      (SELECT e.until FROM bugle.lease e WHERE e.queue = p_queue[i] AND e.until >= p_until_from[i] ORDER BY e.until LIMIT 1) AS expiry
    INTO c FROM bugle.cursor k WHERE k.queue = p_queue[i] ORDER BY k.gen DESC LIMIT 1;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'queue number % does not exist', p_queue[i] USING ERRCODE = 'invalid_parameter_value';
    ELSIF c.xmax <= greatest(c.px[1], c.px[2], c.px[3], c.px[4]) THEN
      RAISE EXCEPTION 'the jobs of queue number % come from another database cluster', p_queue[i]
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run SELECT bugle.rebase() once, with no worker running.';
    END IF;
    -- Rows of this very transaction (moved, swept) belong to the next look: a snapshot does not list its own transaction, so it is
    -- added as open. Read anew before each scan: a write in between may have given it its number.
    own := pg_current_xact_id_if_assigned()::text::bigint;
    late_n := 0;
    late_lane := '{}';
    late_x := '{}';
    late_lo := '{}';
    late_hi := '{}';
    keep := '{}';
    most := CASE WHEN c.paused THEN 0 ELSE p_n[i] END;
    is_limited := false;
    IF c.claim_limit IS NOT NULL AND most > 0 THEN
      SELECT l.room, l.expiry INTO limit_leaves, limit_expiry FROM bugle.limit_room(c.claim_limit, one_queue, moment) l;
      is_limited := coalesce(limit_leaves, 0) < most;
      most := least(coalesce(limit_leaves, 0), most);
    END IF;
    IF c.pend <> '{}' AND most > 0 THEN
      SELECT l.* INTO late_n, late_lane, late_x, late_lo, late_hi, keep FROM bugle.find_late(c.cur, own, most) l;
      RETURN QUERY
      SELECT i, NULL::int, NULL::bigint, moment, NULL::timestamptz, NULL::timestamptz, true, j.lane, j.x, j.id, (j.attempt + 1)::smallint, j.max_attempts,
        j.enqueued_at, j.due_at, j.kind, j.key, j.extra, j.payload, moment + p_dur[i]
      FROM unnest(late_lane, late_x, late_lo, late_hi) AS r (lane, x, lo, hi)
      CROSS JOIN LATERAL (SELECT * FROM bugle.job k WHERE k.queue = p_queue[i] AND k.lane = r.lane AND k.x = r.x AND k.id > r.lo AND k.id <= r.hi OFFSET 0) j;
    END IF;
    room := most - late_n;
    -- Every eighth claim serves the lanes from the last to the first: none of them waits for ever.
    step := CASE WHEN c.gen % 8 = 7 THEN -1 ELSE 1 END;
    -- Scan and snapshot are one statement: whatever the cursor passes unseen belongs to a transaction that the snapshot lists.
    RETURN QUERY
    WITH taken AS MATERIALIZED (
      SELECT j.*
      FROM generate_series(CASE step WHEN 1 THEN 0 ELSE 3 END, CASE step WHEN 1 THEN 3 ELSE 0 END, step) AS l (lane)
      CROSS JOIN LATERAL (
        SELECT * FROM bugle.job k
        WHERE k.queue = p_queue[i] AND k.lane = l.lane AND (k.x, k.id) > (c.px[l.lane + 1], c.pid[l.lane + 1]) AND k.x IS DISTINCT FROM own
        ORDER BY k.x, k.id LIMIT room
      ) j
      LIMIT room
    ), t AS MATERIALIZED (   -- a0 to a3: how many of them come up to the end of each lane
      SELECT count(*)::int AS n, array_agg(lane) AS lane, array_agg(x) AS x, array_agg(id) AS id,
        count(*) FILTER (WHERE (lane - 0) * step <= 0)::int AS a0, count(*) FILTER (WHERE (lane - 1) * step <= 0)::int AS a1,
        count(*) FILTER (WHERE (lane - 2) * step <= 0)::int AS a2, count(*) FILTER (WHERE (lane - 3) * step <= 0)::int AS a3,
        coalesce(sum(pg_column_size(payload)), 0) <= 262144 / last AS inlined,
        ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint) || own AS open_x
      FROM taken
    ), hi AS MATERIALIZED (
      SELECT t.*,
        ARRAY[CASE WHEN lane[a0] = 0 THEN x[a0] ELSE c.px[1] END, CASE WHEN lane[a1] = 1 THEN x[a1] ELSE c.px[2] END,
          CASE WHEN lane[a2] = 2 THEN x[a2] ELSE c.px[3] END, CASE WHEN lane[a3] = 3 THEN x[a3] ELSE c.px[4] END] AS px,
        ARRAY[CASE WHEN lane[a0] = 0 THEN id[a0] ELSE c.pid[1] END, CASE WHEN lane[a1] = 1 THEN id[a1] ELSE c.pid[2] END,
          CASE WHEN lane[a2] = 2 THEN id[a2] ELSE c.pid[3] END, CASE WHEN lane[a3] = 3 THEN id[a3] ELSE c.pid[4] END] AS pid
      FROM t
      WHERE late_n + n > 0
    ), leased AS (
      INSERT INTO bugle.lease (token, queue, lane, lo_x, lo_id, hi_x, hi_id, skip, n, worker, claimed_at, dur, until)
      SELECT p_token[i], p_queue[i], late_lane || '{0,1,2,3}', late_x || c.px, late_lo || c.pid, late_x || px, late_hi || pid,
        ARRAY(SELECT v FROM unnest(open_x) AS v WHERE v < greatest(px[1], px[2], px[3], px[4])), late_n + n, p_worker[i], moment, p_dur[i], moment + p_dur[i]
      FROM hi
    ), passed AS (
      INSERT INTO bugle.cursor (queue, gen, px, pid, pend, claimed, claim_limit)
      SELECT p_queue[i], c.gen + 1, px, pid,
        keep || ARRAY(SELECT ROW(l, v, 0)::bugle.pending FROM generate_series(0, 3) AS l CROSS JOIN unnest(open_x) AS v WHERE v > c.px[l + 1] AND v < px[l + 1]),
        c.claimed + late_n + n, c.claim_limit
      FROM hi
    )
    SELECT i, NULL::int, NULL::bigint, moment, NULL::timestamptz, NULL::timestamptz, hi.inlined, t.lane, t.x, t.id, (t.attempt + 1)::smallint, t.max_attempts,
      t.enqueued_at, t.due_at, t.kind, t.key, t.extra, CASE WHEN hi.inlined THEN t.payload END, moment + p_dur[i]
    FROM taken t CROSS JOIN hi;
    GET DIAGNOSTICS n = ROW_COUNT;
    room := room - n;
    moved := false;
    due := c.due;
    expiry := c.expiry;
    IF c.paused THEN
      NULL;   -- it can wait; but who asks must know of it, or the look after the pause would search behind it
    ELSIF due <= moment THEN
      moved := bugle.move_due(p_queue[i], p_due_from[i], greatest(p_n[i], 100)) > 0;
      SELECT d.due_at INTO due FROM bugle.due d WHERE d.queue = p_queue[i] AND d.due_at >= p_due_from[i] ORDER BY d.due_at LIMIT 1;
    END IF;
    -- A queue whose looks are all full would never learn of ended leases: p_sweep.
    IF expiry <= moment AND (room > 0 OR c.paused OR is_limited OR p_sweep[i]) THEN
      moved := bugle.sweep(p_queue[i], p_until_from[i]) > 0 OR moved;
      SELECT e.until INTO expiry FROM bugle.lease e WHERE e.queue = p_queue[i] AND e.until >= p_until_from[i] ORDER BY e.until LIMIT 1;
    ELSIF room < most THEN
      expiry := least(expiry, moment + p_dur[i]);   -- those just claimed
    END IF;
    IF is_limited THEN   -- a lease of another queue may be the one that makes room
      expiry := least(expiry, limit_expiry);
    END IF;
    IF room > 0 OR c.paused OR is_limited THEN
      empty_queue := p_queue[i];
    END IF;
    ask := i;
    got := most - room;
    again_us := bugle.until_next(CASE WHEN c.paused THEN expiry ELSE least(due, expiry) END, moment, moved);
    IF is_limited AND limit_leaves IS NULL THEN
      got := -1;   -- somebody else claims under its limit: as good as not looked at
      again_us := 2000;
    END IF;
    claimed_at := moment;
    next_due := due;
    next_expiry := expiry;
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

-- Extends the leases among p_tokens that a worker holds and that have not ended. A token not returned: that lease was lost. One that somebody
-- is just ending, mostly the worker itself, is returned as it is: to wait for him would hold up all the others, and he may wait for one of them.
CREATE FUNCTION bugle.renew(p_tokens bigint[], p_worker text) RETURNS TABLE (token bigint, until timestamptz) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  UPDATE bugle.lease l SET until = clock_timestamp() + l.dur
  WHERE l.token = ANY (ARRAY(
    SELECT e.token FROM bugle.lease e
    WHERE e.token = ANY (p_tokens) AND e.worker = p_worker AND e.until > clock_timestamp()
    FOR UPDATE SKIP LOCKED
  ));
  RETURN QUERY
  SELECT l.token, l.until FROM bugle.lease l
  WHERE l.token = ANY (p_tokens) AND l.worker = p_worker AND l.until > clock_timestamp();
END $$;
