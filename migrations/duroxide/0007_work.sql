-- Work: activities, claimed one by one.

-- The first work that p_owner (NULL: a worker without sessions) may have, and may have now; locked. Work of a session belongs to whoever
-- has the session, or to anybody with sessions when nobody has it. p_busy: sessions that somebody else is about to take.
CREATE FUNCTION bugle.find_work(p_now timestamptz, p_owner text, p_untagged boolean, p_tags text[], p_busy text[], OUT id bigint, OUT session text, OUT due timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  SELECT w.id, w.session, w.due INTO id, session, due FROM bugle.work w
  WHERE w.due <= p_now
    AND CASE WHEN w.tag IS NULL THEN p_untagged ELSE p_tags IS NULL OR w.tag = ANY (p_tags) END
    AND (w.session IS NULL OR p_owner IS NOT NULL AND w.session <> ALL (p_busy)
      AND NOT EXISTS (SELECT FROM bugle.session s WHERE s.id = w.session AND s.until > p_now AND s.owner <> p_owner))
  ORDER BY w.due, w.id
  LIMIT 1
  FOR UPDATE OF w SKIP LOCKED;
END $$;

-- Takes a session, or goes on having it. False: somebody else was faster, or is at it. Never waits: the claim holds locks of others.
CREATE FUNCTION bugle.take_session(p_now timestamptz, p_session text, p_owner text, p_lease interval) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz;
  v_owner text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('bugle.session', 0) # hashtextextended(p_session, 0)) THEN
    RETURN false;
  END IF;
  SELECT s.until, s.owner INTO v_until, v_owner FROM bugle.session s WHERE s.id = p_session FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    INSERT INTO bugle.session (id, owner, until, active_at)
    SELECT p_session, p_owner, p_now + p_lease, p_now
    WHERE NOT EXISTS (SELECT FROM bugle.session s WHERE s.id = p_session);   -- or it was locked
    RETURN FOUND;
  ELSIF v_until > p_now AND v_owner <> p_owner THEN
    RETURN false;
  END IF;
  UPDATE bugle.session SET owner = p_owner, until = p_now + p_lease, active_at = p_now WHERE id = p_session;
  RETURN true;
END $$;

-- Leases work that this transaction has locked to those who asked, one for one. With each comes how far the history of its instance goes.
CREATE FUNCTION bugle.lease_work(p_now timestamptz, p_ids bigint[], p_dues timestamptz[], p_asked int[], p_lease interval) RETURNS TABLE (
  id bigint, asked int, token uuid, attempt int, item text, instance text, incarnation bigint, execution bigint, last_event bigint, late_us bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH leased AS (
    UPDATE bugle.work w SET token = gen_random_uuid(), due = clock_timestamp() + p_lease, attempt = w.attempt + 1
    FROM unnest(p_ids, p_dues, p_asked) AS a (id, due, asked)
    WHERE w.id = a.id
    RETURNING w.id, a.asked, w.token, w.attempt, w.item, w.instance, a.due
  )
  SELECT l.id, l.asked, l.token, l.attempt, l.item, l.instance, i.incarnation, i.execution, i.last_event,
    CASE WHEN l.attempt = 1 THEN (extract(epoch FROM p_now - l.due) * 1000000)::bigint END
  FROM leased l LEFT JOIN bugle.instance i ON i.id = l.instance;
END $$;

-- One look: work for each of p_owners (NULL: without sessions), at most one each, for p_lease. Untagged work if p_untagged; tagged work with
-- one of p_tags (NULL: with any). asked: which of the owners a row is for, from 1. The last row has no id; it and late_us: see claim_turns.
CREATE FUNCTION bugle.claim_work(p_owners text[], p_lease interval, p_session_lease interval, p_untagged boolean, p_tags text[]) RETURNS TABLE (
  id bigint, asked int, token uuid, attempt int, item text, instance text, incarnation bigint, execution bigint, last_event bigint, again_us bigint, passed_over boolean, is_dry boolean, late_us bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_order int[];
  v_ids bigint[];
  v_dues timestamptz[];
  v_bound boolean;   -- some of it is a session's
  v_busy text[] := '{}';
  v_unserved text[] := '{}';
  v_plain boolean := false;   -- somebody without sessions goes without
  v_id bigint;
  v_session text;
  v_due timestamptz;
  v_next timestamptz;
  v_dry boolean := false;
  v_nth int;
  v_owner text;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT coalesce(array_agg(w.id), '{}'), coalesce(array_agg(w.due), '{}'), coalesce(bool_or(w.session IS NOT NULL), false)
  INTO v_ids, v_dues, v_bound
  FROM (
    SELECT w.id, w.due, w.session FROM bugle.work w
    WHERE w.due <= v_now AND CASE WHEN w.tag IS NULL THEN p_untagged ELSE p_tags IS NULL OR w.tag = ANY (p_tags) END
    ORDER BY w.due, w.id
    LIMIT cardinality(p_owners)
    FOR UPDATE SKIP LOCKED
  ) w;
  -- Whoever has sessions comes last: work that anybody may do is left to the others, and his own sessions' work is for him alone.
  IF EXISTS (SELECT FROM bugle.session s WHERE s.until > v_now) THEN
    v_order := ARRAY(
      SELECT o.n::int FROM unnest(p_owners) WITH ORDINALITY AS o (owner, n)
      ORDER BY o.owner IS NOT NULL AND EXISTS (SELECT FROM bugle.session s WHERE s.owner = o.owner AND s.until > v_now), o.n
    );
  ELSE
    v_order := ARRAY(SELECT generate_series(1, cardinality(p_owners)));
  END IF;
  -- Most often none of it is a session's: then whoever asks may have whatever there is.
  IF NOT v_bound THEN
    IF v_ids <> '{}' THEN
      RETURN QUERY
      SELECT l.id, l.asked, l.token, l.attempt, l.item, l.instance, l.incarnation, l.execution, l.last_event, NULL::bigint, NULL::boolean, NULL::boolean, l.late_us
      FROM bugle.lease_work(v_now, v_ids, v_dues, v_order, p_lease) l;
    END IF;
    IF cardinality(v_ids) < cardinality(v_order) THEN
      v_unserved := ARRAY(SELECT p_owners[n] FROM unnest(v_order[cardinality(v_ids) + 1:]) AS n);
      v_plain := array_position(v_unserved, NULL) IS NOT NULL;
    END IF;
    v_order := '{}';
  END IF;
  FOREACH v_nth IN ARRAY v_order LOOP
    v_owner := p_owners[v_nth];
    LOOP
      SELECT f.id, f.session, f.due INTO v_id, v_session, v_due FROM bugle.find_work(v_now, v_owner, p_untagged, p_tags, v_busy) f;
      EXIT WHEN v_id IS NULL OR v_session IS NULL OR bugle.take_session(v_now, v_session, v_owner, p_session_lease);
      v_busy := v_busy || v_session;
    END LOOP;
    IF v_id IS NULL THEN
      v_dry := NOT EXISTS (SELECT FROM bugle.work w WHERE w.due <= v_now);
      EXIT WHEN v_dry;   -- the others need not even search
      v_unserved := v_unserved || v_owner;
      v_plain := v_plain OR v_owner IS NULL;
      CONTINUE;
    END IF;
    RETURN QUERY
    SELECT l.id, l.asked, l.token, l.attempt, l.item, l.instance, l.incarnation, l.execution, l.last_event, NULL::bigint, NULL::boolean, NULL::boolean, l.late_us
    FROM bugle.lease_work(v_now, ARRAY[v_id], ARRAY[v_due], ARRAY[v_nth], p_lease) l;
  END LOOP;
  -- Work that becomes due, leases that end, and sessions that end while work waits for them.
  SELECT least(
    (SELECT min(w.due) FROM bugle.work w WHERE w.due > v_now),
    (SELECT min(s.until) FROM bugle.session s WHERE s.until > v_now AND EXISTS (SELECT FROM bugle.work w WHERE w.session = s.id AND w.due <= v_now))
  ) INTO v_next;
  v_dry := v_dry OR NOT EXISTS (SELECT FROM bugle.work w WHERE w.due <= v_now);
  RETURN QUERY
  SELECT NULL::bigint, NULL::int, NULL::uuid, NULL::int, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint,
    (extract(epoch FROM v_next - clock_timestamp()) * 1000000)::bigint,
    NOT v_dry AND v_unserved <> '{}' AND EXISTS (
      SELECT FROM bugle.work w
      WHERE w.due <= v_now
        AND CASE WHEN w.tag IS NULL THEN p_untagged ELSE p_tags IS NULL OR w.tag = ANY (p_tags) END
        AND (w.session IS NULL OR NOT v_plain
          AND NOT EXISTS (SELECT FROM bugle.session s WHERE s.id = w.session AND s.until > v_now AND s.owner <> ALL (v_unserved)))
    ),
    v_dry, NULL::bigint;
END $$;

-- Notes that a session is in use, if it still is whose it was.
CREATE FUNCTION bugle.touch_session(p_session text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.session SET active_at = clock_timestamp() WHERE id = p_session AND until > clock_timestamp();
END $$;

-- Work is done: it goes, and its completion (p_instances NULL: none) is told to its instance. All of it, or nothing.
CREATE FUNCTION bugle.ack_work(p_ids bigint[], p_tokens uuid[], p_instances text[], p_items text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_told text[] := array_remove(p_instances, NULL);
  v_count bigint;
  v_sessions text[];
BEGIN
  IF v_told <> '{}' THEN
    -- Before the work: a turn that cancels it locks in this order.
    PERFORM bugle.touch_inboxes(v_told, array_fill(v_now, ARRAY[cardinality(v_told)]));
    INSERT INTO bugle.message (instance, kind, item, due)
    SELECT m.instance, 'other', m.item, v_now FROM unnest(p_instances, p_items) WITH ORDINALITY AS m (instance, item, n)
    WHERE m.instance IS NOT NULL
    ORDER BY m.n;
  END IF;
  WITH held AS MATERIALIZED (   -- by their ids: whoever takes several takes them in this order
    SELECT w.id FROM bugle.work w
    WHERE w.id = ANY (p_ids) AND w.token = p_tokens[array_position(p_ids, w.id)] AND w.due > clock_timestamp()
    ORDER BY w.id
    FOR UPDATE
  ), done AS (
    DELETE FROM bugle.work w USING held WHERE w.id = held.id
    RETURNING w.session
  )
  SELECT count(*), array_agg(d.session) FILTER (WHERE d.session IS NOT NULL) INTO v_count, v_sessions FROM done d;
  IF v_count <> cardinality(p_ids) THEN
    PERFORM bugle.lease_lost('the activity was cancelled, or its lock has expired');
  END IF;
  IF v_sessions IS NOT NULL THEN
    PERFORM bugle.touch_session(s.id) FROM (SELECT DISTINCT u.id FROM unnest(v_sessions) AS u (id) ORDER BY u.id) s;
  END IF;
  IF v_told <> '{}' THEN
    PERFORM bugle.check_bell(1);
  END IF;
END $$;

-- Holds work from now on for p_lease.
CREATE FUNCTION bugle.renew_work(p_id bigint, p_token uuid, p_lease interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz;
  v_session text;
BEGIN
  SELECT w.due, w.session INTO v_until, v_session FROM bugle.work w WHERE w.id = p_id AND w.token = p_token FOR UPDATE;
  IF NOT FOUND OR v_until <= clock_timestamp() THEN
    PERFORM bugle.lease_lost('the activity was cancelled, or its lock has expired');
  END IF;
  UPDATE bugle.work SET due = clock_timestamp() + p_lease WHERE id = p_id;
  IF v_session IS NOT NULL THEN
    PERFORM bugle.touch_session(v_session);
  END IF;
  IF clock_timestamp() + p_lease < v_until THEN
    PERFORM bugle.check_bell(2);   -- it ends sooner than sleepers know
  END IF;
END $$;

-- Gives work back, due after p_delay. p_uncounted: the attempt does not count.
CREATE FUNCTION bugle.release_work(p_id bigint, p_token uuid, p_delay interval, p_uncounted boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.work SET token = NULL, due = clock_timestamp() + p_delay, attempt = greatest(0, attempt - p_uncounted::int)
  WHERE id = p_id AND token = p_token;
  IF NOT FOUND THEN
    PERFORM bugle.lease_lost('the lock token is not, or no longer, that of any work');
  END IF;
  PERFORM bugle.check_bell(2);
END $$;

-- Holds the sessions of these owners that are live and not idle; how many that is.
CREATE FUNCTION bugle.renew_sessions(p_owners text[], p_lease interval, p_idle interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_ids text[];
  v_sooner boolean;
BEGIN
  SELECT coalesce(array_agg(s.id), '{}'), bool_or(s.until > v_now + p_lease) INTO v_ids, v_sooner
  FROM (
    SELECT s.id, s.until FROM bugle.session s
    WHERE s.owner = ANY (p_owners) AND s.until > v_now AND s.active_at > v_now - p_idle
    ORDER BY s.id
    FOR UPDATE
  ) s;
  UPDATE bugle.session SET until = v_now + p_lease
  WHERE id = ANY (v_ids);
  IF v_sooner THEN
    PERFORM bugle.check_bell(2);   -- one ends sooner than sleepers know
  END IF;
  RETURN cardinality(v_ids);
END $$;

-- Removes sessions that have ended and that no work waits for.
CREATE FUNCTION bugle.sweep_sessions() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_count bigint;
BEGIN
  DELETE FROM bugle.session
  WHERE id = ANY (ARRAY(
    SELECT s.id FROM bugle.session s
    WHERE s.until <= v_now AND NOT EXISTS (SELECT FROM bugle.work w WHERE w.session = s.id)
    FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;
