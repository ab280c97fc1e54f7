-- What becomes of claimed messages. Every verdict names the message and, if it can, the token; what the newest version of the ledger does not
-- confirm is answered and not done.

-- Settles messages of any partitions and groups of namespace p_namespace: each by its seq or by its key (a message without one has its id
-- as its key). p_verdict: ack: it and all before it are done; fail: tried again, or dead when the queue's retries are used up; retry: tried
-- again; dead; release: the whole claim is given back, not counted, whatever the message.
-- A row for each, in their order. outcome: acked; dead; retried; released; returned (it comes again, because one before it does); passed (the
-- cursor has passed it already, and does not go back); lost (somebody else's claim, or nobody's); missing (not of this claim); again (two
-- wrote at once: ask anew). freed: the partition is claimable again. Behind them a row 'wake' for each queue of which somebody can take
-- something now, and has been rung for.
CREATE FUNCTION bugle.settle_messages(
  p_namespace int, p_part int[], p_group text[], p_token uuid[], p_seq bigint[], p_key text[], p_verdict text[], p_error text[]
) RETURNS TABLE (o int, outcome text, freed boolean, queue_no int, queue text, partition text) LANGUAGE plpgsql
SET lock_timeout = '5s' SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
  freed_parts record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bugle.check_read_committed('ack');
  END IF;
  RETURN QUERY
  WITH item AS MATERIALIZED (
    SELECT u.o::int AS o, u.token, u.seq, u.key, u.verdict, u.error, p.id AS part, p.name AS partition, q.id AS queue_no, q.name AS queue, g.id AS grp, g.name AS group_name
    FROM unnest(p_part, p_group, p_token, p_seq, p_key, p_verdict, p_error) WITH ORDINALITY AS u (part, grp, token, seq, key, verdict, error, o)
    LEFT JOIN bugle.partition p ON p.id = u.part
    LEFT JOIN bugle.queue q ON q.id = p.queue AND q.namespace = p_namespace
    LEFT JOIN bugle.consumer_group g ON g.queue = q.id AND g.name = u.grp
  ), claim AS MATERIALIZED (   -- of each group and partition that is named: the newest claim, held or not any more
    SELECT d.part, d.grp, d.queue_no, t.ver, t.cur, t.lo, t.hi, t.until, t.token, t.held, t.auto, t.tries,
      coalesce(m.retry_limit, 3) AS retry_limit, make_interval(secs => coalesce(m.retry_delay_ms, 0) / 1000.0) AS retry_delay
    FROM (SELECT DISTINCT i.part, i.grp, i.queue_no FROM item i WHERE i.grp IS NOT NULL) d
    JOIN bugle.message_queue m ON m.queue = d.queue_no
    CROSS JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = d.part AND c.grp = d.grp ORDER BY c.ver DESC LIMIT 1) t
  ), member AS MATERIALIZED (   -- the messages of those claims, where they are named by their keys
    SELECT c.part, c.grp, max(l.seq) AS seq, coalesce(l.key, l.id::text) AS key
    FROM claim c
    CROSS JOIN LATERAL (SELECT h.seq, h.key, h.id FROM bugle.message h WHERE h.part = c.part AND h.seq > c.lo AND h.seq <= c.hi) l
    WHERE EXISTS (SELECT FROM item i WHERE i.part = c.part AND i.grp = c.grp AND i.seq IS NULL AND i.verdict <> 'release')
    GROUP BY c.part, c.grp, 4
  ), judged AS MATERIALIZED (
    SELECT i.*, c.ver, s.seq AS at_seq,
      CASE
        WHEN c.ver IS NULL OR i.token IS NOT NULL AND i.token IS DISTINCT FROM c.token OR NOT c.held AND NOT (c.auto AND i.verdict = 'release') AND s.seq > c.cur IS NOT FALSE THEN 'lost'
        WHEN i.verdict = 'release' THEN 'released'
        WHEN s.seq IS NULL OR s.seq <= c.lo OR s.seq > c.hi THEN 'missing'
        WHEN s.seq <= c.cur THEN CASE i.verdict WHEN 'ack' THEN 'acked' ELSE 'passed' END
        WHEN i.verdict = 'ack' THEN 'ack'
        WHEN i.verdict = 'dead' OR i.verdict = 'fail' AND c.tries >= c.retry_limit THEN 'bury'
        ELSE 'retried'
      END AS ruling
    FROM item i
    LEFT JOIN claim c ON c.part = i.part AND c.grp = i.grp
    LEFT JOIN member m ON m.part = i.part AND m.grp = i.grp AND m.key = i.key AND i.seq IS NULL
    CROSS JOIN LATERAL (SELECT coalesce(i.seq, m.seq) AS seq) s
  ), ruled AS MATERIALIZED (   -- in the order of the log: what comes behind the first that comes again comes again as well
    SELECT j.*, min(j.at_seq) FILTER (WHERE j.ruling = 'retried') OVER (PARTITION BY j.part, j.grp) AS stop FROM judged j
  ), reduced AS MATERIALIZED (
    SELECT c.*, r.stop, r.given_back, greatest(c.cur, r.done) AS new_cur
    FROM claim c
    JOIN (
      SELECT j.part, j.grp, min(j.stop) AS stop, bool_or(j.ruling = 'released') AS given_back,
        max(j.at_seq) FILTER (WHERE j.ruling IN ('ack', 'bury') AND (j.stop IS NULL OR j.at_seq < j.stop)) AS done
      FROM ruled j WHERE j.ruling IN ('ack', 'bury', 'retried', 'released')
      GROUP BY j.part, j.grp
    ) r ON r.part = c.part AND r.grp = c.grp
  ), written AS (
    INSERT INTO bugle.group_cursor (part, grp, ver, cur, lo, hi, until, token, held, tries)
    SELECT r.part, r.grp, r.ver + 1,
      CASE WHEN r.auto THEN r.lo ELSE r.new_cur END,   -- an acked claim that reached nobody
      r.lo, r.hi,
      CASE WHEN r.stop IS NOT NULL THEN CASE WHEN r.retry_delay > interval '0' THEN moment + r.retry_delay END
        WHEN NOT r.given_back AND r.new_cur < r.hi THEN r.until END,
      CASE WHEN NOT r.auto THEN r.token END,
      r.stop IS NULL AND NOT r.given_back AND r.new_cur < r.hi,
      CASE WHEN r.new_cur > r.cur THEN 0 ELSE r.tries END + CASE WHEN r.stop IS NOT NULL THEN 1 ELSE 0 END
    FROM reduced r
    ORDER BY r.grp, r.part
    ON CONFLICT DO NOTHING
    RETURNING group_cursor.part, group_cursor.grp, group_cursor.held
  ), told AS (   -- every release is news: a push that commits just now may have been looked at before it
    INSERT INTO bugle.news (queue, grp, parts)
    SELECT c.queue_no, w.grp, array_agg(w.part) FROM written w JOIN claim c ON c.part = w.part AND c.grp = w.grp WHERE NOT w.held GROUP BY c.queue_no, w.grp
  ), buried AS (
    INSERT INTO bugle.dead_message (part, group_name, seq, queue, tries, error, at, id, trace, key, sub, payload)
    SELECT j.part, j.group_name, l.seq, j.queue_no, r.tries + 1, j.error, l.at, l.id, l.trace, l.key, l.sub, l.payload
    FROM judged j
    JOIN reduced r ON r.part = j.part AND r.grp = j.grp
    JOIN written w ON w.part = j.part AND w.grp = j.grp
    CROSS JOIN LATERAL (SELECT * FROM bugle.message h WHERE h.part = j.part AND h.seq = j.at_seq) l
    WHERE j.ruling = 'bury' AND (r.stop IS NULL OR j.at_seq < r.stop)
    ON CONFLICT DO NOTHING
  )
  SELECT j.o,
    CASE
      WHEN j.ruling NOT IN ('ack', 'bury', 'retried', 'released') THEN j.ruling
      WHEN w.part IS NULL THEN 'again'
      WHEN j.ruling IN ('retried', 'released') THEN j.ruling
      WHEN r.stop <= j.at_seq OR r.given_back AND j.at_seq > r.new_cur THEN 'returned'
      WHEN j.ruling = 'ack' THEN 'acked'
      ELSE 'dead'
    END,
    coalesce(NOT w.held, false), j.queue_no, j.queue::text, j.partition::text
  FROM judged j
  LEFT JOIN reduced r ON r.part = j.part AND r.grp = j.grp
  LEFT JOIN written w ON w.part = j.part AND w.grp = j.grp
  ORDER BY j.o;
  -- In statements of their own: what they read is younger than the locks that they have.
  outcome := 'wake';
  FOR freed_parts IN
    SELECT w.queue, w.grp, w.parts
    FROM bugle.news w
    WHERE w.queue = ANY (ARRAY(SELECT DISTINCT p.queue FROM bugle.partition p WHERE p.id = ANY (p_part))) AND w.xid = pg_current_xact_id_if_assigned() AND w.grp IS NOT NULL
  LOOP
    CONTINUE WHEN NOT bugle.wake_for_freed(freed_parts.queue, freed_parts.grp, freed_parts.parts);
    queue_no := freed_parts.queue;
    RETURN NEXT;
  END LOOP;
END $$;

-- Rule 1 of docs/wake.md for partitions that a group has let go of. False: nobody was rung for, because nobody could take anything. That is
-- asked only when somebody sleeps: under load nobody does, and no producer waits for an ack.
CREATE FUNCTION bugle.wake_for_freed(p_queue int, p_group int, p_part int[]) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(bugle.bell_class(), bugle.bucket_of(p_queue)) AND bugle.are_dry(p_group, p_part) THEN
    RETURN false;
  END IF;
  PERFORM bugle.check_bell(p_queue);
  RETURN true;
END $$;

-- Has a group done all that is in these partitions, and will that be so when this transaction has committed? The locks are kept until then:
-- whoever pushes commits, and rings, after it. Without them a push could be looked at while the lease is still there, and nobody would look
-- again before its end.
CREATE FUNCTION bugle.are_dry(p_group int, p_part int[]) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  FOR i IN 1..cardinality(p_part) LOOP
    IF NOT pg_try_advisory_xact_lock_shared(bugle.partition_class(), p_part[i]) THEN
      RETURN false;   -- somebody is just pushing
    END IF;
  END LOOP;
  RETURN NOT EXISTS (
    SELECT FROM unnest(p_part) AS u (part)
    CROSS JOIN LATERAL (SELECT c.cur FROM bugle.group_cursor c WHERE c.part = u.part AND c.grp = p_group ORDER BY c.ver DESC LIMIT 1) t
    CROSS JOIN LATERAL (SELECT m.seq FROM bugle.message m WHERE m.part = u.part ORDER BY m.seq DESC LIMIT 1) newest
    WHERE newest.seq > t.cur
  );
END $$;

-- Extends leases of namespace p_namespace by their tokens, with all their partitions, to p_by from now unless they end later anyway. A row for
-- each, in their order: held, lost, ended (its time is over) or again (two wrote at once: ask anew); and its new end.
CREATE FUNCTION bugle.extend_leases(p_namespace int, p_token uuid[], p_by interval[]) RETURNS TABLE (o int, outcome text, until timestamptz) LANGUAGE plpgsql
SET lock_timeout = '5s' SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bugle.check_read_committed('extend');
  END IF;
  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT DISTINCT ON (u.token) u.o::int AS o, u.token, u.by FROM unnest(p_token, p_by) WITH ORDINALITY AS u (token, by, o) ORDER BY u.token, u.by DESC
  ), held AS MATERIALIZED (
    SELECT a.o, a.by, t.*
    FROM asked a
    CROSS JOIN LATERAL (SELECT DISTINCT h.part, h.grp FROM bugle.group_cursor h WHERE h.token = a.token AND h.held) d
    JOIN bugle.partition p ON p.id = d.part
    JOIN bugle.queue q ON q.id = p.queue AND q.namespace = p_namespace
    CROSS JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = d.part AND c.grp = d.grp ORDER BY c.ver DESC LIMIT 1) t
    WHERE t.token = a.token AND t.held
  ), written AS (
    INSERT INTO bugle.group_cursor (part, grp, ver, cur, lo, hi, until, token, held, tries)
    SELECT h.part, h.grp, h.ver + 1, h.cur, h.lo, h.hi, greatest(h.until, moment + h.by), h.token, true, h.tries
    FROM held h
    WHERE h.until > moment
    ORDER BY h.grp, h.part
    ON CONFLICT DO NOTHING
    RETURNING group_cursor.token, group_cursor.part, group_cursor.grp, group_cursor.until
  )
  SELECT u.o::int,
    CASE
      WHEN count(h.part) = 0 THEN 'lost'
      WHEN count(h.part) FILTER (WHERE h.until > moment) = 0 THEN 'ended'
      WHEN count(w.part) < count(h.part) FILTER (WHERE h.until > moment) THEN 'again'
      ELSE 'held'
    END,
    min(w.until)
  FROM unnest(p_token) WITH ORDINALITY AS u (token, o)
  LEFT JOIN held h ON h.token = u.token
  LEFT JOIN written w ON w.part = h.part AND w.grp = h.grp
  GROUP BY u.o
  ORDER BY u.o;
END $$;

-- Pushes, then settles, all or nothing, in one transaction that waits for no client. p_required: leases that must still be held. BGL05: it was not
-- done, and why, in the detail: the place of the operation and its outcome. The pushed messages come first, then the verdicts.
CREATE FUNCTION bugle.transact(
  p_namespace int, p_required uuid[],
  m_queue int[], m_partition text[], m_id uuid[], m_key text[], m_trace uuid[], m_sub text[], m_payload text[],
  s_part int[], s_group text[], s_token uuid[], s_seq bigint[], s_key text[], s_verdict text[], s_error text[]
) RETURNS TABLE (o int, part int, seq bigint, id uuid, outcome text, freed boolean, queue_no int, queue text, partition text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  r record;
BEGIN
  FOR r IN SELECT p.* FROM bugle.push_messages(m_queue, m_partition, m_id, m_key, m_trace, m_sub, m_payload) p LOOP
    IF r.seq IS NULL THEN
      RAISE EXCEPTION 'message % of the transaction was not pushed: %', r.o, CASE WHEN r.part IS NULL THEN 'its queue is gone' WHEN r.full_at IS NOT NULL THEN 'its queue is full' ELSE 'it is a duplicate' END
        USING ERRCODE = 'BGL05', DETAIL = 'push ' || r.o || CASE WHEN r.part IS NULL THEN ' gone' WHEN r.full_at IS NOT NULL THEN ' full' ELSE ' duplicate' END;
    END IF;
    o := r.o;
    part := r.part;
    seq := r.seq;
    id := r.id;
    RETURN NEXT;
  END LOOP;
  PERFORM bugle.require_leases(p_namespace, p_required);
  FOR r IN SELECT s.* FROM bugle.settle_messages(p_namespace, s_part, s_group, s_token, s_seq, s_key, s_verdict, s_error) s LOOP
    IF r.outcome = 'again' THEN
      RAISE EXCEPTION 'somebody settled the same claim at the same moment' USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    ELSIF r.outcome IN ('lost', 'missing', 'passed') THEN
      RAISE EXCEPTION 'verdict % of the transaction was not accepted: %', r.o, r.outcome USING ERRCODE = 'BGL05', DETAIL = 'settle ' || r.o || ' ' || r.outcome;
    END IF;
    o := r.o;   -- NULL for 'wake'
    part := NULL;
    seq := NULL;
    id := NULL;
    outcome := r.outcome;
    freed := r.freed;
    queue_no := r.queue_no;
    queue := r.queue;
    partition := r.partition;
    RETURN NEXT;
  END LOOP;
END $$;

-- Refuses (BGL05) unless all these leases are held and have time left.
CREATE FUNCTION bugle.require_leases(p_namespace int, p_token uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  lost uuid;
BEGIN
  SELECT u.token INTO lost
  FROM unnest(p_token) AS u (token)
  WHERE NOT EXISTS (
    SELECT FROM bugle.group_cursor h
    JOIN bugle.partition p ON p.id = h.part
    JOIN bugle.queue q ON q.id = p.queue AND q.namespace = p_namespace
    CROSS JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = h.part AND c.grp = h.grp ORDER BY c.ver DESC LIMIT 1) t
    WHERE h.token = u.token AND h.held AND t.token = u.token AND t.held AND t.until > clock_timestamp()
  )
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'lease % is not held any more', lost USING ERRCODE = 'BGL05', DETAIL = 'lease ' || lost || ' lost';
  END IF;
END $$;
