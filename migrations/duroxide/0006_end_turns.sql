-- The ends of turns: acked with all that they did, given back, or held for longer.

-- Everything that a turn did, in one transaction, under its lease.
CREATE FUNCTION bugle.ack_turn(
  p_instance text, p_token uuid, p_execution bigint, p_node text,
  p_events bigint[], p_kinds text[], p_data text[],
  p_name text, p_version text, p_parent text, p_pinned bigint, p_status text, p_output text,
  p_sets_custom_status boolean, p_custom_status text,
  p_kv_cleared boolean, p_kv_keys text[], p_kv_values text[], p_kv_updated_ms bigint[],
  p_work_instance text[], p_work_execution bigint[], p_work_activity bigint[], p_work_session text[], p_work_tag text[], p_work_item text[],
  p_message_instance text[], p_message_kind text[], p_message_item text[], p_message_delay interval[],
  p_cancel_instance text[], p_cancel_execution bigint[], p_cancel_activity bigint[],
  OUT incarnation bigint, OUT before bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_others text[];
  v_due timestamptz[];
  v_new boolean;
  v_left boolean;
BEGIN
  -- Inboxes are locked in the order of their instances, this one's in its place among them: two turns that write to each other must not wait
  -- for each other.
  IF p_message_instance <> '{}' THEN
    SELECT coalesce(array_agg(m.instance), '{}'), coalesce(array_agg(v_now + m.delay), '{}') INTO v_others, v_due
    FROM unnest(p_message_instance, p_message_delay) AS m (instance, delay)
    WHERE m.instance COLLATE "C" < p_instance;
    IF v_others <> '{}' THEN
      PERFORM bugle.touch_inboxes(v_others, v_due);
    END IF;
  END IF;
  PERFORM bugle.hold_turn(p_instance, p_token, true);
  IF p_message_instance <> '{}' THEN
    SELECT coalesce(array_agg(m.instance), '{}'), coalesce(array_agg(v_now + m.delay), '{}') INTO v_others, v_due
    FROM unnest(p_message_instance, p_message_delay) AS m (instance, delay)
    WHERE m.instance COLLATE "C" > p_instance;
    IF v_others <> '{}' THEN
      PERFORM bugle.touch_inboxes(v_others, v_due);
    END IF;
    INSERT INTO bugle.message (instance, kind, item, due)
    SELECT m.instance, m.kind, m.item, v_now + m.delay
    FROM unnest(p_message_instance, p_message_kind, p_message_item, p_message_delay) WITH ORDINALITY AS m (instance, kind, item, delay, n)
    ORDER BY m.n;
  END IF;

  SELECT n.incarnation, n.before, n.is_new INTO incarnation, before, v_new
  FROM bugle.note_turn(p_instance, p_execution, p_name, p_version, p_parent, p_pinned,
    (SELECT min(e) FROM unnest(p_events) AS e), (SELECT max(e) FROM unnest(p_events) AS e), p_node, p_sets_custom_status, p_custom_status) AS n;
  IF v_new THEN
    INSERT INTO bugle.execution (instance, execution) VALUES (p_instance, p_execution) ON CONFLICT DO NOTHING;
  END IF;
  IF p_status IS NOT NULL THEN
    UPDATE bugle.execution SET status = p_status, output = p_output, completed_at = CASE WHEN p_status <> 'Running' THEN v_now END
    WHERE instance = p_instance AND execution = p_execution;
  END IF;
  INSERT INTO bugle.history (instance, execution, event, kind, data)
  SELECT p_instance, p_execution, e.event, e.kind, e.data FROM unnest(p_events, p_kinds, p_data) AS e (event, kind, data);
  IF p_kv_cleared OR p_kv_keys <> '{}' THEN
    PERFORM bugle.note_kv(p_instance, p_kv_cleared, p_kv_keys, p_kv_values, p_kv_updated_ms);
  END IF;
  IF p_status IN ('Completed', 'Failed', 'ContinuedAsNew') AND EXISTS (SELECT FROM bugle.kv_change c WHERE c.instance = p_instance) THEN
    PERFORM bugle.keep_kv(p_instance);
  END IF;

  DELETE FROM bugle.message WHERE instance = p_instance AND token = p_token;
  v_left := bugle.free_inbox(p_instance);
  -- Written before it is cancelled: an activity may be both scheduled and cancelled by one turn.
  IF p_work_item <> '{}' THEN
    PERFORM bugle.enqueue_work(p_work_instance, p_work_execution, p_work_activity, p_work_session, p_work_tag, p_work_item);
  END IF;
  IF p_cancel_activity <> '{}' THEN
    -- By their ids, as acks of several take them.
    DELETE FROM bugle.work w
    WHERE w.id = ANY (ARRAY(
      SELECT w.id FROM bugle.work w
      JOIN unnest(p_cancel_instance, p_cancel_execution, p_cancel_activity) AS c (instance, execution, activity)
        ON w.instance = c.instance AND w.execution = c.execution AND w.activity = c.activity
      ORDER BY w.id
      FOR UPDATE OF w
    ));
  END IF;
  IF v_left OR p_message_instance <> '{}' THEN
    PERFORM bugle.check_bell(1);
  END IF;
END $$;

-- Gives a turn back, its messages due after p_delay (NULL: as they are). p_uncounted: the attempt does not count.
CREATE FUNCTION bugle.release_turn(p_instance text, p_token uuid, p_delay interval, p_uncounted boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bugle.check_read_committed();
  PERFORM FROM bugle.inbox b WHERE b.instance = p_instance AND b.token = p_token FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM bugle.lease_lost('the lock token is not, or no longer, that of a turn');
  END IF;
  -- Only what was claimed with it: messages that came meanwhile keep their time and their attempts.
  UPDATE bugle.message SET
    token = NULL,
    due = CASE WHEN p_delay IS NULL THEN due ELSE clock_timestamp() + p_delay END,
    attempt = greatest(0, attempt - p_uncounted::int)
  WHERE instance = p_instance AND token = p_token;
  PERFORM bugle.free_inbox(p_instance);
  PERFORM bugle.check_bell(1);
END $$;

-- Holds a turn from now on for p_lease.
CREATE FUNCTION bugle.renew_turn(p_instance text, p_token uuid, p_lease interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_until timestamptz;
BEGIN
  PERFORM bugle.hold_turn(p_instance, p_token, false);
  SELECT b.due INTO v_until FROM bugle.inbox b WHERE b.instance = p_instance;
  UPDATE bugle.inbox SET due = clock_timestamp() + p_lease WHERE instance = p_instance;
  IF clock_timestamp() + p_lease < v_until THEN
    PERFORM bugle.check_bell(1);   -- it ends sooner than sleepers know
  END IF;
END $$;
