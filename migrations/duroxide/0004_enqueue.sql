-- Writing messages and work.

-- Whoever takes or ends a lease reads, after it has waited for a lock, what others wrote meanwhile. In another isolation level it would not see
-- that, and a message could be lost.
CREATE FUNCTION bugle.check_read_committed() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the provider works in the isolation level READ COMMITTED alone, this session uses %', current_setting('transaction_isolation')
      USING ERRCODE = 'BGL03', HINT = 'Set default_transaction_isolation for the connections of its pool.';
  END IF;
END $$;

-- Makes an inbox due, and locks it until its message is there for others to see. Most often it is due already, or leased (then what is new is
-- seen when the lease is given up): several may write to such a one at once, and it can be claimed meanwhile. Only whoever gives it up
-- (ack, release, delete) waits for them, or they for him.
CREATE FUNCTION bugle.touch_inbox(p_instance text, p_due timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM bugle.inbox b WHERE b.instance = p_instance AND (b.token IS NOT NULL OR b.due <= p_due) FOR KEY SHARE;
  IF NOT FOUND THEN
    INSERT INTO bugle.inbox AS b (instance, due) VALUES (p_instance, p_due)
    ON CONFLICT (instance) DO UPDATE SET due = excluded.due WHERE b.token IS NULL AND excluded.due < b.due;
  END IF;
END $$;

-- The same for many, in the order of their instances.
CREATE FUNCTION bugle.touch_inboxes(p_instances text[], p_due timestamptz[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  m record;
BEGIN
  FOR m IN
    SELECT i.instance, min(i.due) AS due FROM unnest(p_instances, p_due) AS i (instance, due)
    GROUP BY i.instance
    ORDER BY i.instance COLLATE "C"
  LOOP
    PERFORM bugle.touch_inbox(m.instance, m.due);
  END LOOP;
END $$;

-- One message, due after p_delay.
CREATE FUNCTION bugle.enqueue_message(p_instance text, p_kind text, p_item text, p_delay interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_due timestamptz := clock_timestamp() + p_delay;
BEGIN
  PERFORM bugle.touch_inbox(p_instance, v_due);
  INSERT INTO bugle.message (instance, kind, item, due) VALUES (p_instance, p_kind, p_item, v_due);
  PERFORM bugle.check_bell(1);
END $$;

-- Several, each due after its delay.
CREATE FUNCTION bugle.enqueue_messages(p_instances text[], p_kinds text[], p_items text[], p_delays interval[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  IF cardinality(p_instances) = 1 THEN   -- most often
    PERFORM bugle.enqueue_message(p_instances[1], p_kinds[1], p_items[1], p_delays[1]);
    RETURN;
  END IF;
  PERFORM bugle.touch_inboxes(p_instances, ARRAY(SELECT v_now + d FROM unnest(p_delays) WITH ORDINALITY AS u (d, n) ORDER BY n));
  INSERT INTO bugle.message (instance, kind, item, due)
  SELECT m.instance, m.kind, m.item, v_now + m.delay
  FROM unnest(p_instances, p_kinds, p_items, p_delays) WITH ORDINALITY AS m (instance, kind, item, delay, n)
  ORDER BY m.n;
  PERFORM bugle.check_bell(1);
END $$;

-- Work, due now. Those arrays of one row each hold what the work items say of themselves.
CREATE FUNCTION bugle.enqueue_work(p_instance text[], p_execution bigint[], p_activity bigint[], p_session text[], p_tag text[], p_item text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.work (instance, execution, activity, session, tag, item, due)
  SELECT w.instance, w.execution, w.activity, w.session, w.tag, w.item, clock_timestamp()
  FROM unnest(p_instance, p_execution, p_activity, p_session, p_tag, p_item) WITH ORDINALITY AS w (instance, execution, activity, session, tag, item, n)
  ORDER BY w.n;
  PERFORM bugle.check_bell(2);
END $$;
