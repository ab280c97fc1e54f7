-- Turns: an instance with all its messages that are due, claimed together.

-- Gives an inbox up that this transaction has locked: free, and due with the first message that is left; gone when none is. True: something
-- is left.
CREATE FUNCTION bugle.free_inbox(p_instance text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_due timestamptz;
BEGIN
  SELECT min(m.due) INTO v_due FROM bugle.message m WHERE m.instance = p_instance;
  IF v_due IS NULL THEN
    DELETE FROM bugle.inbox WHERE instance = p_instance;
    RETURN false;
  END IF;
  UPDATE bugle.inbox SET due = v_due, token = NULL WHERE instance = p_instance;
  RETURN true;
END $$;

-- What becomes of messages for an instance that has not begun. Nothing but queue messages: they are dropped, as duroxide says. Anything else
-- may have overtaken the start: it is kept until there is one, and is in nobody's way meanwhile.
CREATE FUNCTION bugle.set_aside(p_instance text, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_start timestamptz;
BEGIN
  -- Somebody is just writing to it, perhaps its start: not now, and not by waiting, for a claim holds the locks of others.
  PERFORM FROM bugle.inbox b WHERE b.instance = p_instance FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM bugle.message m WHERE m.instance = p_instance AND m.due <= p_now AND m.kind <> 'queue') THEN
    DELETE FROM bugle.message WHERE instance = p_instance AND due <= p_now;
    PERFORM bugle.free_inbox(p_instance);
    RETURN;
  END IF;
  SELECT min(m.due) INTO v_start FROM bugle.message m WHERE m.instance = p_instance AND m.kind = 'start';
  UPDATE bugle.inbox SET due = coalesce(v_start, 'infinity'), token = NULL WHERE instance = p_instance;
END $$;

-- One look: claims up to p_most instances for p_lease. With p_filtered only those whose current execution is pinned to no version or to one
-- from p_from to p_to; the others are neither locked nor counted. History is left out where p_node wrote it last: it has it in memory.
-- The last row has no instance: when to look again, whether a row that might have been claimed was locked by somebody else, and whether nothing
-- is due any more, for whomever. late_us: for how long the first message has been due; NULL when all were claimed before.
-- The clock is read into variables: as a volatile function it would be no index condition.
CREATE FUNCTION bugle.claim_turns(p_most int, p_lease interval, p_filtered boolean, p_from bigint, p_to bigint, p_node text) RETURNS TABLE (
  instance text, token uuid, attempt int, name text, version text, execution bigint, incarnation bigint, last_event bigint,
  messages text[], history text[], kv_keys text[], kv_values text[], kv_updated_ms bigint[], again_us bigint, passed_over boolean, is_dry boolean,
  late_us bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_left int := p_most;
  v_found text[];
  v_unbegun text[];
  v_aside text[] := '{}';
  v_claimed text[] := '{}';
  v_next timestamptz;
  v_dry boolean;
BEGIN
  PERFORM bugle.check_read_committed();
  -- A claim lost in a crash of the server is one that never was; whatever depends on it is written, and flushed, after it.
  PERFORM set_config('synchronous_commit', 'off', true);
  LOOP
    v_found := ARRAY(
      SELECT b.instance FROM bugle.inbox b
      WHERE b.due <= v_now AND b.instance <> ALL (v_aside)
        AND (NOT p_filtered OR NOT EXISTS (SELECT FROM bugle.instance i WHERE i.id = b.instance AND (i.pinned < p_from OR i.pinned > p_to)))
      ORDER BY b.due, b.instance
      LIMIT v_left
      FOR NO KEY UPDATE OF b SKIP LOCKED   -- whoever only adds a message does not bar it
    );
    EXIT WHEN v_found = '{}';
    -- Read anew now that the rows are locked: messages that came in between belong to the turn, and the lease begins here.
    v_now := clock_timestamp();
    v_unbegun := ARRAY(
      SELECT f.instance FROM unnest(v_found) AS f (instance)
      WHERE NOT EXISTS (SELECT FROM bugle.instance i WHERE i.id = f.instance)
        AND NOT EXISTS (SELECT FROM bugle.message m WHERE m.instance = f.instance AND m.due <= v_now AND m.kind = 'start')
    );
    v_claimed := v_claimed || ARRAY(SELECT f.instance FROM unnest(v_found) AS f (instance) WHERE f.instance <> ALL (v_unbegun));
    UPDATE bugle.inbox b SET token = gen_random_uuid(), due = v_now + p_lease
    WHERE b.instance = ANY (v_found) AND b.instance <> ALL (v_unbegun);
    EXIT WHEN v_unbegun = '{}';
    PERFORM bugle.set_aside(u.instance, v_now) FROM unnest(v_unbegun) AS u (instance);
    v_aside := v_aside || v_unbegun;
    v_left := p_most - cardinality(v_claimed);
    EXIT WHEN v_left = 0;
  END LOOP;
  IF v_claimed <> '{}' THEN
    RETURN QUERY
    WITH told AS (
      UPDATE bugle.message m SET token = b.token, attempt = m.attempt + 1
      FROM bugle.inbox b
      WHERE b.instance = ANY (v_claimed) AND m.instance = b.instance AND m.due <= v_now
      RETURNING m.instance, b.token, m.id, m.item, m.attempt, m.due
    ), turn AS (
      SELECT t.instance, t.token, max(t.attempt) AS attempt, array_agg(t.item ORDER BY t.id) AS messages, min(t.due) FILTER (WHERE t.attempt = 1) AS due
      FROM told t GROUP BY t.instance, t.token
    )
    SELECT t.instance, t.token, t.attempt, i.name, i.version, i.execution, i.incarnation, i.last_event, t.messages,
      CASE WHEN i.node IS DISTINCT FROM p_node THEN
        ARRAY(SELECT h.data FROM bugle.history h WHERE h.instance = t.instance AND h.execution = i.execution ORDER BY h.event)
      END,
      k.keys, k.vals, k.updated_ms, NULL::bigint, NULL::boolean, NULL::boolean, (extract(epoch FROM v_now - t.due) * 1000000)::bigint
    FROM turn t
    LEFT JOIN bugle.instance i ON i.id = t.instance
    LEFT JOIN LATERAL (
      SELECT array_agg(k.key) AS keys, array_agg(k.value) AS vals, array_agg(k.updated_ms) AS updated_ms FROM bugle.kv k WHERE k.instance = t.instance
    ) k ON true
    ORDER BY array_position(v_claimed, t.instance);
  END IF;
  -- In a statement of its own: it sees what was just claimed, and so when those leases end.
  SELECT min(b.due) INTO v_next FROM bugle.inbox b WHERE b.due > v_now AND b.due < 'infinity';
  v_dry := NOT EXISTS (SELECT FROM bugle.inbox b WHERE b.due <= v_now);
  RETURN QUERY
  SELECT NULL::text, NULL::uuid, NULL::int, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text[], NULL::text[], NULL::text[], NULL::text[], NULL::bigint[],
    (extract(epoch FROM v_next - clock_timestamp()) * 1000000)::bigint,
    NOT v_dry AND cardinality(v_claimed) < p_most AND EXISTS (
      SELECT FROM bugle.inbox b
      WHERE b.due <= v_now
        AND (NOT p_filtered OR NOT EXISTS (SELECT FROM bugle.instance i WHERE i.id = b.instance AND (i.pinned < p_from OR i.pinned > p_to)))
    ),
    v_dry, NULL::bigint;
END $$;

-- Raised by whoever comes with a token that is not, or no longer, that of a lease. Whatever was done in the same statement is undone.
CREATE FUNCTION bugle.lease_lost(p_what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', p_what USING ERRCODE = 'BGL01';
END $$;

-- Locks the inbox of a turn; p_ends: against those who add messages as well. Only its token opens it, and only while the lease lasts: by the
-- clock after the lock was granted.
CREATE FUNCTION bugle.hold_turn(p_instance text, p_token uuid, p_ends boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz;
BEGIN
  PERFORM bugle.check_read_committed();
  IF p_ends THEN
    SELECT b.due INTO v_until FROM bugle.inbox b WHERE b.instance = p_instance AND b.token = p_token FOR UPDATE;
  ELSE
    SELECT b.due INTO v_until FROM bugle.inbox b WHERE b.instance = p_instance AND b.token = p_token FOR NO KEY UPDATE;
  END IF;
  IF v_until IS NULL THEN
    PERFORM bugle.lease_lost('the lock token is not, or no longer, that of a turn');
  ELSIF v_until <= clock_timestamp() THEN
    PERFORM bugle.lease_lost('the instance lock has expired');
  END IF;
END $$;

-- The current execution, and what is known of the instance, after a turn. Returns the incarnation and the highest event there was before in this
-- execution (0: none, -1: caches must not add to what they have).
CREATE FUNCTION bugle.note_turn(
  p_instance text, p_execution bigint, p_name text, p_version text, p_parent text, p_pinned bigint, p_first_event bigint, p_last_event bigint,
  p_node text, p_sets_status boolean, p_custom_status text, OUT incarnation bigint, OUT before bigint, OUT is_new boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_old bugle.instance;
  v_again boolean;
BEGIN
  SELECT * INTO v_old FROM bugle.instance i WHERE i.id = p_instance FOR UPDATE;
  is_new := NOT FOUND OR v_old.execution <> p_execution OR v_old.name IS NULL;
  IF v_old.id IS NULL THEN
    INSERT INTO bugle.instance AS i (id, name, version, parent, execution, pinned, last_event, node, custom_status, custom_status_version)
    VALUES (p_instance, p_name, p_version, p_parent, p_execution, p_pinned, coalesce(p_last_event, 0), p_node, p_custom_status, p_sets_status::int)
    RETURNING i.incarnation INTO incarnation;
    before := 0;
    RETURN;
  END IF;
  before := CASE WHEN p_execution > v_old.execution THEN 0 WHEN p_execution = v_old.execution THEN v_old.last_event ELSE -1 END;
  v_again := p_first_event <= before;   -- an event in the midst of others: whoever has those must read them again
  UPDATE bugle.instance i SET
    name = coalesce(p_name, i.name),
    version = coalesce(p_version, i.version),
    parent = CASE WHEN i.name IS NULL THEN p_parent ELSE i.parent END,
    execution = greatest(i.execution, p_execution),
    pinned = CASE WHEN p_execution > i.execution THEN p_pinned WHEN p_execution = i.execution THEN coalesce(p_pinned, i.pinned) ELSE i.pinned END,
    last_event = CASE WHEN p_execution > i.execution THEN coalesce(p_last_event, 0) WHEN p_execution = i.execution THEN greatest(i.last_event, p_last_event) ELSE i.last_event END,
    node = CASE WHEN p_execution >= i.execution THEN p_node ELSE i.node END,
    incarnation = CASE WHEN v_again THEN nextval('bugle.incarnation') ELSE i.incarnation END,
    custom_status = CASE WHEN p_sets_status THEN p_custom_status ELSE i.custom_status END,
    custom_status_version = i.custom_status_version + p_sets_status::int,
    updated_at = clock_timestamp()
  WHERE i.id = p_instance
  RETURNING i.incarnation INTO incarnation;
  IF v_again THEN
    before := -1;
  END IF;
END $$;

-- What a turn did to keys: p_cleared first, then each key set (or removed: NULL).
CREATE FUNCTION bugle.note_kv(p_instance text, p_cleared boolean, p_keys text[], p_values text[], p_updated_ms bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ms bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
  IF p_cleared THEN
    UPDATE bugle.kv_change SET value = NULL, updated_ms = v_ms WHERE instance = p_instance;
    INSERT INTO bugle.kv_change (instance, key, value, updated_ms)
    SELECT k.instance, k.key, NULL, v_ms FROM bugle.kv k WHERE k.instance = p_instance
    ON CONFLICT DO NOTHING;
  END IF;
  INSERT INTO bugle.kv_change (instance, key, value, updated_ms)
  SELECT p_instance, c.key, c.value, coalesce(c.updated_ms, v_ms) FROM unnest(p_keys, p_values, p_updated_ms) AS c (key, value, updated_ms)
  ON CONFLICT (instance, key) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms;
END $$;

-- The execution is over: what it changed becomes what it leaves.
CREATE FUNCTION bugle.keep_kv(p_instance text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bugle.kv k USING bugle.kv_change c WHERE c.instance = p_instance AND k.instance = p_instance AND k.key = c.key;
  INSERT INTO bugle.kv (instance, key, value, updated_ms)
  SELECT c.instance, c.key, c.value, c.updated_ms FROM bugle.kv_change c WHERE c.instance = p_instance AND c.value IS NOT NULL;
  DELETE FROM bugle.kv_change WHERE instance = p_instance;
END $$;
