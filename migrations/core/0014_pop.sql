-- Claiming messages for groups.

-- The seq that a push of this moment would come after.
CREATE FUNCTION bugle.newest_seq() RETURNS bigint LANGUAGE sql AS $$
  SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM bugle.message_seq s
$$;

-- The id of a consumer group, made on first use. p_mode: all that is there, only what is new, or what was pushed from p_from on. It counts
-- for a new group alone.
CREATE FUNCTION bugle.declare_group(p_queue int, p_name text, p_mode text DEFAULT 'all', p_from timestamptz DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  SELECT g.id INTO number FROM bugle.consumer_group g WHERE g.queue = p_queue AND g.name = p_name;
  IF NOT FOUND THEN
    INSERT INTO bugle.consumer_group (queue, name, start, mode, start_at)
    SELECT m.queue, p_name, CASE p_mode WHEN 'all' THEN 0 WHEN 'new' THEN bugle.newest_seq() ELSE bugle.seq_before(p_from) END, p_mode, CASE p_mode WHEN 'from' THEN p_from END
    FROM bugle.message_queue m WHERE m.queue = p_queue
    ON CONFLICT (queue, name) DO NOTHING
    RETURNING id INTO number;
  END IF;
  IF number IS NULL THEN   -- somebody else made it meanwhile, or there is no such queue
    SELECT g.id INTO number FROM bugle.consumer_group g WHERE g.queue = p_queue AND g.name = p_name;
  END IF;
  RETURN number;
END $$;

-- One look for everybody who waits (rule 3 of docs/wake.md), alone in its transaction. A sight is a group of a queue; the sights ascend by
-- group, or two looks could wait for each other. p_seen: the snapshot of the sight's last look (NULL: search all partitions); p_try: partitions
-- that may be claimable, as an array; p_asks: how many asks it has. The asks, sight by sight, in the order of registration: for partition
-- a_part or any of them, at most a_most messages, of up to a_parts partitions under one token a_token, for a_lease (NULL: as the queue says);
-- a_auto: acked by the claim.
-- Rows: 's' what the sight has seen, in text; 'g' the group is gone; 'n' a partition that has become claimable, perhaps; 'm' a message; 'c' what
-- became of a partition that was tried: in how many microseconds to try again (NULL: when there is news of it; 0: at any time); 't' the
-- tail waits to be numbered.
CREATE FUNCTION bugle.look_messages(
  p_queue int[], p_group int[], p_seen text[], p_try text[], p_asks int[],
  a_part int[], a_most int[], a_parts int[], a_token uuid[], a_lease interval[], a_auto boolean[]
) RETURNS TABLE (
  kind text, sight int, ask int, part int, again_us bigint, partition text, tries int, until timestamptz,
  seq bigint, n bigint, at timestamptz, id uuid, trace uuid, key text, sub text, payload text, seen text
) LANGUAGE plpgsql
SET lock_timeout = '5s' SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
  last int := 0;        -- the last ask of the sight
  first int;
  snapshot pg_snapshot;
  rescan boolean;
  new_seen text;
  fresh int[];          -- partitions that there is news of
  busy int[];           -- of those found by a search: which are not claimable, and until when
  busy_until timestamptz[];
  tried int[];
  k record;             -- the group and its queue
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bugle.check_read_committed('pop');
  END IF;
  -- A claim lost in a crash of the server is a message not yet claimed; any durable ack flushes the claim before it.
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR i IN 1..cardinality(p_queue) LOOP
    first := last + 1;
    last := last + p_asks[i];
    moment := clock_timestamp();
    snapshot := p_seen[i];
    busy := '{}';
    busy_until := '{}';
    rescan := true;
    IF snapshot IS NOT NULL THEN
      -- What lies between the two looks may have been trimmed, or belongs to a server that has forgotten some of its transactions.
      SELECT pg_snapshot_xmin(snapshot) < m.news_from OR pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()) INTO rescan FROM bugle.meta m;
    END IF;
    IF NOT rescan THEN
      -- Whatever the last look could not see: of later transactions, and of those that were open then.
      SELECT array_agg(DISTINCT x.p) FILTER (WHERE x.p IS NOT NULL), coalesce(bool_or(w.parts IS NULL), false), pg_current_snapshot()::text
      INTO fresh, rescan, new_seen
      FROM (
        SELECT h.parts, h.grp FROM bugle.news h WHERE h.queue = p_queue[i] AND h.xid >= pg_snapshot_xmax(snapshot)
        UNION ALL
        SELECT h.parts, h.grp FROM bugle.news h WHERE h.queue = p_queue[i] AND h.xid = ANY (ARRAY(SELECT pg_snapshot_xip(snapshot)))
      ) w
      LEFT JOIN LATERAL unnest(w.parts) AS x (p) ON true
      WHERE w.grp IS NULL OR w.grp = p_group[i];
    END IF;
    SELECT greatest(g.start, q.floor) AS base, g.start_at,
      make_interval(secs => coalesce(nullif(q.lease_seconds, 0), CASE q.lease_seconds WHEN 0 THEN 60 ELSE 300 END)) AS lease,
      make_interval(secs => coalesce(q.delay_seconds, 0)) AS delay, make_interval(secs => coalesce(q.window_seconds, 0)) AS calm,
      coalesce(q.delay_seconds, 0) > 0 AS delays, coalesce(q.window_seconds, 0) > 0 AS calms,
      -- Messages from before are nobody's: by the group's start, by the queue's time to live.
      greatest(g.start_at, moment - make_interval(secs => least(nullif(q.ttl_seconds, 0), nullif(q.wait_seconds_max, 0)))) AS since
    INTO k
    FROM bugle.consumer_group g
    JOIN bugle.message_queue q ON q.queue = g.queue
    WHERE g.id = p_group[i];
    sight := i;
    IF NOT FOUND THEN
      kind := 'g';
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF rescan THEN
      SELECT pg_current_snapshot()::text INTO new_seen;   -- before the search: what it misses is news for the next look
      SELECT array_agg(s.id) FILTER (WHERE s.until IS NULL), coalesce(array_agg(s.id) FILTER (WHERE s.until IS NOT NULL), '{}'),
        coalesce(array_agg(s.until) FILTER (WHERE s.until IS NOT NULL), '{}')
      INTO fresh, busy, busy_until
      FROM (
        SELECT p.id, CASE WHEN t.until > moment THEN t.until END AS until
        FROM bugle.partition p
        LEFT JOIN LATERAL (SELECT c.cur, c.until FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = p_group[i] ORDER BY c.ver DESC LIMIT 1) t ON true
        CROSS JOIN LATERAL (SELECT l.seq FROM bugle.message l WHERE l.part = p.id ORDER BY l.seq DESC LIMIT 1) newest
        WHERE p.queue = p_queue[i] AND newest.seq > greatest(t.cur, k.base)
      ) s;
    END IF;
    kind := 's';
    seen := new_seen;
    RETURN NEXT;
    RETURN QUERY
    SELECT 'n', i, NULL::int, u.p, bugle.microseconds_to(u.until), NULL::text, NULL::int, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::timestamptz,
      NULL::uuid, NULL::uuid, NULL::text, NULL::text, NULL::text, NULL::text
    FROM (SELECT f AS p, NULL::timestamptz AS until FROM unnest(fresh) AS f UNION ALL SELECT * FROM unnest(busy, busy_until)) u (p, until);
    SELECT array_agg(z.p ORDER BY z.o) INTO tried
    FROM (
      SELECT u.p, min(u.o) AS o
      FROM (
        SELECT t.p, CASE WHEN t.p = ANY (a_part[first:last]) THEN 0 ELSE t.o END AS o FROM unnest(p_try[i]::int[]) WITH ORDINALITY AS t (p, o)
        UNION ALL
        SELECT f.p, CASE WHEN f.p = ANY (a_part[first:last]) THEN 0 ELSE 1000000 + f.o END FROM unnest(fresh) WITH ORDINALITY AS f (p, o)
      ) u
      WHERE u.o = 0 OR array_position(a_part[first:last], NULL) IS NOT NULL
      GROUP BY u.p ORDER BY 2, 1
      LIMIT 20 + (SELECT sum(a) FROM unnest(a_parts[first:last]) AS a)
    ) z;
    CONTINUE WHEN tried IS NULL;   -- most looks find nothing and end here
    RETURN QUERY
    WITH ask AS MATERIALIZED (
      SELECT first - 1 + u.o::int AS ask, u.part, u.most, u.parts, u.token, coalesce(u.lease, k.lease) AS lease, u.auto
      FROM unnest(a_part[first:last], a_most[first:last], a_parts[first:last], a_token[first:last], a_lease[first:last], a_auto[first:last])
        WITH ORDINALITY AS u (part, most, parts, token, lease, auto, o)
    ), slot AS MATERIALIZED (   -- everybody gets one partition before anybody gets a second
      SELECT a.ask, row_number() OVER (ORDER BY s.nth, a.ask) AS place
      FROM ask a CROSS JOIN LATERAL generate_series(1, a.parts) AS s (nth)
      WHERE a.part IS NULL
    ), bound AS MATERIALIZED (   -- a partition has one lease: of those who wait for it, the first
      SELECT DISTINCT ON (a.part) a.part, a.ask FROM ask a WHERE a.part IS NOT NULL ORDER BY a.part, a.ask
    ), state AS MATERIALIZED (
      SELECT c.p, c.o, p.name, coalesce(t.ver, 0) AS ver, greatest(t.cur, k.base) AS cur,
        -- A lease that ended unsettled was a try, too.
        CASE WHEN t.cur >= k.base THEN t.tries + CASE WHEN t.held THEN 1 ELSE 0 END ELSE 0 END AS tries,
        CASE WHEN t.until > moment THEN t.until END AS busy, b.ask
      FROM unnest(tried) WITH ORDINALITY AS c (p, o)
      JOIN bugle.partition p ON p.id = c.p
      LEFT JOIN bound b ON b.part = c.p
      LEFT JOIN LATERAL (SELECT g.* FROM bugle.group_cursor g WHERE g.part = c.p AND g.grp = p_group[i] ORDER BY g.ver DESC LIMIT 1) t ON true
    ), due AS MATERIALIZED (
      SELECT s.*, CASE WHEN f.at IS NOT NULL THEN greatest(f.at + k.delay, w.at + k.calm) END AS due
      FROM state s
      LEFT JOIN LATERAL (
        SELECT l.at FROM bugle.message l
        WHERE l.part = s.p AND l.seq > s.cur AND (l.grp IS NULL OR l.grp = p_group[i]) AND (k.since IS NULL OR l.at >= k.since)
        ORDER BY l.seq LIMIT 1
      ) f ON true
      LEFT JOIN LATERAL (SELECT l.at FROM bugle.message l WHERE k.calms AND l.part = s.p ORDER BY l.seq DESC LIMIT 1) w ON true
      WHERE s.busy IS NULL
    ), open AS MATERIALIZED (
      SELECT d.*, row_number() OVER (PARTITION BY d.ask IS NULL ORDER BY d.o) AS place FROM due d WHERE d.due <= moment
    ), dealt AS MATERIALIZED (
      SELECT o.p, o.o, o.name, o.ver, o.cur, o.tries, a.ask, a.most, a.token, a.lease, a.auto
      FROM open o
      LEFT JOIN slot s ON o.ask IS NULL AND s.place = o.place
      JOIN ask a ON a.ask = coalesce(o.ask, s.ask)
    ), read AS MATERIALIZED (
      SELECT d.*, m.seq, m.n, m.at, m.id, m.trace, m.key, m.sub, m.payload, row_number() OVER (PARTITION BY d.ask ORDER BY d.o, m.seq) AS place
      FROM dealt d
      CROSS JOIN LATERAL (
        SELECT * FROM bugle.message l
        WHERE l.part = d.p AND l.seq > d.cur AND (l.grp IS NULL OR l.grp = p_group[i]) AND (k.since IS NULL OR l.at >= k.since)
          AND (NOT k.delays OR l.at <= moment - k.delay)
        ORDER BY l.seq LIMIT d.most
      ) m
    ), kept AS MATERIALIZED (
      SELECT * FROM read r WHERE r.place <= r.most
    ), claimed AS (
      INSERT INTO bugle.group_cursor (part, grp, ver, cur, lo, hi, until, token, held, auto, tries)
      -- The lease begins with the claim, not with the look: it is as long as was asked for, and claims of a partition begin in their order.
      SELECT r.p, p_group[i], r.ver + 1, CASE WHEN r.auto THEN max(r.seq) ELSE r.cur END, r.cur, max(r.seq), CASE WHEN NOT r.auto THEN clock_timestamp() + r.lease END,
        r.token, NOT r.auto, r.auto, CASE WHEN r.auto THEN 0 ELSE r.tries END
      FROM kept r
      GROUP BY r.p, r.ver, r.cur, r.token, r.lease, r.auto, r.tries
      ORDER BY r.p
      ON CONFLICT DO NOTHING
      RETURNING group_cursor.part, group_cursor.until, group_cursor.auto
    )
    SELECT 'm', i, r.ask, r.p, NULL::bigint, r.name, r.tries, c.until, r.seq, r.n, r.at, r.id, r.trace, r.key, r.sub, r.payload, NULL::text
    FROM kept r
    JOIN claimed c ON c.part = r.p
    UNION ALL
    SELECT 'c', i, NULL, s.p,
      CASE
        WHEN s.busy IS NOT NULL THEN bugle.microseconds_to(s.busy)
        WHEN d.due IS NULL THEN NULL
        WHEN d.due > moment THEN bugle.microseconds_to(d.due)
        WHEN c.until IS NOT NULL THEN bugle.microseconds_to(c.until)
        WHEN c.auto THEN   -- it may have been emptied
          CASE WHEN k.delays OR (SELECT count(*) = min(r.most) OR bool_or(r.place > r.most) FROM read r WHERE r.p = s.p) THEN 0 END
        ELSE 0
      END,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM state s
    LEFT JOIN due d ON d.p = s.p
    LEFT JOIN claimed c ON c.part = s.p;
  END LOOP;
  IF bugle.tail_waits() THEN
    kind := 't';
    sight := NULL;
    seen := NULL;
    RETURN NEXT;
  END IF;
END $$;

-- How far away a moment is, rounded up: never early.
CREATE FUNCTION bugle.microseconds_to(p_at timestamptz) RETURNS bigint LANGUAGE sql
AS $$ SELECT greatest(ceil(extract(epoch FROM p_at - clock_timestamp()) * 1000000), CASE WHEN p_at IS NOT NULL THEN 0 END)::bigint $$;
