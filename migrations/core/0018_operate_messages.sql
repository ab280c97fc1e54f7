-- What people do with queues of messages and their groups, and what they see.

-- Tells a queue its options, all of them: what p_options does not name is not told (NULL). Makes the queue and its partition Default. Returns its
-- number.
CREATE FUNCTION bugle.configure_queue(p_queue text, p_options jsonb, p_namespace text DEFAULT 'default') RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int := bugle.declare_queue(p_queue, p_namespace, 'messages');
BEGIN
  -- What nobody enforces must not be taken for a promise.
  IF (p_options ->> 'encryption_enabled')::boolean THEN
    RAISE EXCEPTION 'queue "%" cannot be told to encrypt yet', left(p_queue, 80)
      USING ERRCODE = 'feature_not_supported', HINT = 'Leave encryption_enabled out, or say false.';
  END IF;
  UPDATE bugle.message_queue q SET
    tag_namespace = r.tag_namespace, tag_task = r.tag_task, lease_seconds = r.lease_seconds, retry_limit = r.retry_limit, retry_delay_ms = r.retry_delay_ms,
    delay_seconds = r.delay_seconds, window_seconds = r.window_seconds, messages_max = r.messages_max, ttl_seconds = r.ttl_seconds, priority = r.priority,
    retention_enabled = r.retention_enabled, retention_seconds = r.retention_seconds, completed_retention_seconds = r.completed_retention_seconds,
    wait_seconds_max = r.wait_seconds_max, encryption_enabled = r.encryption_enabled, dead_letter_queue = r.dead_letter_queue,
    dead_letter_after_retries = r.dead_letter_after_retries
  FROM jsonb_populate_record(NULL::bugle.message_queue, p_options) r
  WHERE q.queue = number;
  PERFORM bugle.declare_partitions(ARRAY[number], ARRAY['Default']);
  PERFORM bugle.tell_all(number);   -- a shorter delay makes messages claimable sooner
  PERFORM bugle.ring_control_under_lock();
  RETURN number;
END $$;

-- Everybody who waits for a queue searches it anew.
CREATE FUNCTION bugle.tell_all(p_queue int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.news (queue) VALUES (p_queue);
  PERFORM bugle.check_bell(p_queue);
END $$;

-- Moves a group: p_to = beginning, end, or time (what was pushed at p_at or later). It gets another id: whatever it had leased is lost, and all
-- its cursors are where it begins. Returns false when there is no such queue.
CREATE FUNCTION bugle.seek_group(p_queue int, p_name text, p_to text, p_at timestamptz DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  place bigint := CASE p_to WHEN 'beginning' THEN 0 WHEN 'end' THEN bugle.newest_seq() ELSE bugle.seq_before(p_at) END;
BEGIN
  IF bugle.declare_group(p_queue, p_name, 'all') IS NULL THEN
    RETURN false;
  END IF;
  UPDATE bugle.consumer_group
  SET id = DEFAULT, start = place, mode = CASE p_to WHEN 'beginning' THEN 'all' WHEN 'end' THEN 'new' ELSE 'from' END, start_at = CASE p_to WHEN 'time' THEN p_at END
  WHERE queue = p_queue AND name = p_name;
  PERFORM bugle.tell_all(p_queue);
  RETURN true;
END $$;

-- Moves a group in one partition, behind everything that is there now. Its lease there is lost. The seq that it is at; NULL: there is no such
-- group or partition; again (-1): two wrote at once.
CREATE FUNCTION bugle.seek_partition(p_queue int, p_name text, p_partition text) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  place bigint;
  written bigint;
  told bugle.news;
BEGIN
  PERFORM bugle.check_read_committed('seek');
  SELECT m.seq INTO place
  FROM bugle.partition p
  CROSS JOIN LATERAL (SELECT l.seq FROM bugle.message l WHERE l.part = p.id ORDER BY l.seq DESC LIMIT 1) m
  WHERE p.queue = p_queue AND p.name = p_partition;
  INSERT INTO bugle.group_cursor (part, grp, ver, cur)
  SELECT p.id, g.id, coalesce(t.ver, 0) + 1, greatest(t.cur, place, 0)
  FROM bugle.partition p
  JOIN bugle.consumer_group g ON g.queue = p.queue AND g.name = p_name
  LEFT JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
  WHERE p.queue = p_queue AND p.name = p_partition
  ON CONFLICT DO NOTHING
  RETURNING cur INTO written;
  IF FOUND THEN   -- as a release: of this partition, for this group, and for nobody if nothing was pushed meanwhile
    INSERT INTO bugle.news (queue, grp, parts)
    SELECT p_queue, g.id, ARRAY[p.id] FROM bugle.partition p JOIN bugle.consumer_group g ON g.queue = p.queue
    WHERE p.queue = p_queue AND p.name = p_partition AND g.name = p_name
    RETURNING * INTO told;
    PERFORM bugle.wake_for_freed(told.queue, told.grp, told.parts);
  ELSIF EXISTS (SELECT FROM bugle.partition p JOIN bugle.consumer_group g ON g.queue = p.queue WHERE p.queue = p_queue AND p.name = p_partition AND g.name = p_name) THEN
    RETURN -1;
  END IF;
  RETURN written;
END $$;

-- Deletes a group; its dead letters stay. False: there is none.
CREATE FUNCTION bugle.delete_group(p_queue int, p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM bugle.consumer_group WHERE queue = p_queue AND name = p_name;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM bugle.tell_all(p_queue);   -- whoever waits for it makes it anew
  RETURN true;
END $$;

-- Makes everything that is in a queue invisible, for all groups, at once. What is leased can still be settled.
CREATE FUNCTION bugle.clear_queue(p_queue int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  place bigint := bugle.newest_seq();
BEGIN
  UPDATE bugle.message_queue SET floor = greatest(floor, place) WHERE queue = p_queue;
  PERFORM bugle.tell_all(p_queue);
  RETURN place;
END $$;

-- Deletes a queue with all that it holds. A push that is under way writes into nothing; its rows go with their generation.
CREATE FUNCTION bugle.delete_message_queue(p_queue int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bugle.tell_all(p_queue);
  DELETE FROM bugle.queue WHERE id = p_queue AND holds = 'messages';
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM bugle.consumer_group WHERE queue = p_queue;
  DELETE FROM bugle.dead_message WHERE queue = p_queue;
  DELETE FROM bugle.message_count WHERE queue = p_queue;
  DELETE FROM bugle.partition WHERE queue = p_queue;
  PERFORM bugle.ring_control_under_lock();
  RETURN true;
END $$;

-- Where the groups of a queue are in each of its partitions: two probes for each. lag: messages that the group has not done; first_at: when
-- the oldest of them was pushed.
CREATE FUNCTION bugle.group_lag(p_queue int, p_group text DEFAULT NULL) RETURNS TABLE (
  group_name text, part int, partition text, cur bigint, lag bigint, first_at timestamptz, token uuid, until timestamptz, tries int, leased bigint
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT g.name::text, p.id, p.name::text, b.cur, coalesce(last.n - first.n + 1, 0), first.at, CASE WHEN b.is_held THEN t.token END, CASE WHEN b.is_held THEN t.until END,
    coalesce(t.tries, 0), CASE WHEN b.is_held THEN coalesce(hi.n - first.n + 1, 0) ELSE 0 END
  FROM bugle.consumer_group g
  JOIN bugle.message_queue q ON q.queue = g.queue
  JOIN bugle.partition p ON p.queue = g.queue
  LEFT JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
  CROSS JOIN LATERAL (SELECT greatest(t.cur, g.start, q.floor) AS cur, coalesce(t.held AND t.until > clock_timestamp(), false) AS is_held) b
  LEFT JOIN LATERAL (SELECT m.n, m.at FROM bugle.message m WHERE m.part = p.id AND m.seq > b.cur ORDER BY m.seq LIMIT 1) first ON true
  LEFT JOIN LATERAL (SELECT m.n FROM bugle.message m WHERE m.part = p.id AND first.n IS NOT NULL ORDER BY m.seq DESC LIMIT 1) last ON true
  LEFT JOIN LATERAL (SELECT m.n FROM bugle.message m WHERE b.is_held AND m.part = p.id AND m.seq <= t.hi AND m.seq > b.cur ORDER BY m.seq DESC LIMIT 1) hi ON true
  WHERE g.queue = p_queue AND (p_group IS NULL OR g.name = p_group)
  ORDER BY g.name, p.name;
END $$;

-- The partitions of a queue: how many messages each holds that are visible, the oldest and the newest of them; what the group that is furthest
-- behind has not done, and what is leased.
CREATE FUNCTION bugle.partition_counts(p_queue int) RETURNS TABLE (
  part int, partition text, created_at timestamptz, total bigint, pending bigint, leased bigint, dead bigint, first_at timestamptz, last_at timestamptz
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH lag AS MATERIALIZED (
    SELECT l.part, max(l.lag) AS pending, max(l.leased) AS leased FROM bugle.group_lag(p_queue) l GROUP BY l.part
  ), dead AS MATERIALIZED (
    SELECT d.part, count(*) AS n FROM bugle.dead_message d WHERE d.queue = p_queue GROUP BY d.part
  )
  SELECT p.id, p.name::text, p.created_at, coalesce(last.n - first.n + 1, 0), coalesce(l.pending, last.n - first.n + 1, 0), coalesce(l.leased, 0), coalesce(d.n, 0), first.at, last.at
  FROM bugle.partition p
  JOIN bugle.message_queue q ON q.queue = p.queue
  LEFT JOIN lag l ON l.part = p.id
  LEFT JOIN dead d ON d.part = p.id
  LEFT JOIN LATERAL (SELECT m.n, m.at FROM bugle.message m WHERE m.part = p.id AND m.seq > q.floor ORDER BY m.seq LIMIT 1) first ON true
  LEFT JOIN LATERAL (SELECT m.n, m.at FROM bugle.message m WHERE m.part = p.id AND first.n IS NOT NULL ORDER BY m.seq DESC LIMIT 1) last ON true
  WHERE p.queue = p_queue
  ORDER BY p.name;
END $$;

-- Puts dead letters back, each for the group that it was dead for alone: written anew at the end of its partition, under its id and key.
-- p_queue and p_group (NULL: any), p_part and p_key (NULL: all): which. At most p_most. Returns how many.
CREATE FUNCTION bugle.redrive_dead(p_queue int, p_group text, p_part int, p_key text, p_most int) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  parts int[];
  again int;
BEGIN
  PERFORM bugle.check_read_committed('redrive');
  SELECT array_agg(DISTINCT d.part) INTO parts FROM bugle.dead_message d
  WHERE d.queue = p_queue AND (p_group IS NULL OR d.group_name = p_group) AND (p_part IS NULL OR d.part = p_part) AND (p_key IS NULL OR coalesce(d.key, d.id::text) = p_key);
  PERFORM bugle.lock_partitions(parts);
  WITH gone AS (
    DELETE FROM bugle.dead_message d
    WHERE (d.part, d.group_name, d.seq) IN (
      SELECT e.part, e.group_name, e.seq FROM bugle.dead_message e
      JOIN bugle.consumer_group g ON g.queue = e.queue AND g.name = e.group_name
      WHERE e.queue = p_queue AND e.part = ANY (parts) AND (p_group IS NULL OR e.group_name = p_group) AND (p_key IS NULL OR coalesce(e.key, e.id::text) = p_key)
      ORDER BY e.died_at, e.seq LIMIT p_most)
    RETURNING d.*
  ), last AS MATERIALIZED (
    SELECT k.part, coalesce((SELECT m.n FROM bugle.message m WHERE m.part = k.part ORDER BY m.seq DESC LIMIT 1), (SELECT p.base_n FROM bugle.partition p WHERE p.id = k.part)) AS n
    FROM (SELECT DISTINCT part FROM gone) k
  ), written AS (
    INSERT INTO bugle.message (part, grp, seq, n, at, id, trace, key, sub, payload)
    SELECT z.part, z.grp, nextval('bugle.message_seq'), z.last_n + z.place, clock_timestamp(), z.id, z.trace, z.key, z.sub, z.payload
    FROM (
      SELECT e.*, g.id AS grp, l.n AS last_n, row_number() OVER (PARTITION BY e.part ORDER BY e.seq) AS place
      FROM gone e JOIN last l ON l.part = e.part JOIN bugle.consumer_group g ON g.queue = e.queue AND g.name = e.group_name
      ORDER BY e.seq
    ) z
    RETURNING part, grp
  ), told AS (   -- of each group alone
    INSERT INTO bugle.news (queue, grp, parts) SELECT p_queue, w.grp, array_agg(DISTINCT w.part) FROM written w GROUP BY w.grp
    RETURNING bugle.check_bell(queue)
  )
  SELECT count(*) INTO again FROM written;
  RETURN again;
END $$;

-- Messages by their places, with what they are to the groups of their queues. leased_by: in a lease that has time left.
CREATE FUNCTION bugle.describe_messages(p_part int[], p_seq bigint[]) RETURNS TABLE (
  id uuid, key text, trace uuid, sub text, queue text, part int, partition text, seq bigint, n bigint, at timestamptz,
  groups bigint, done_by bigint, leased_by bigint, dead_for bigint
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT m.id, m.key::text, m.trace, m.sub, q.name::text, m.part, p.name::text, m.seq, m.n, m.at, g.groups, g.done_by, g.leased_by,
    (SELECT count(*) FROM bugle.dead_message d WHERE d.part = m.part AND d.seq = m.seq)
  FROM unnest(p_part, p_seq) WITH ORDINALITY AS u (part, seq, o)
  JOIN bugle.message m ON m.part = u.part AND m.seq = u.seq
  JOIN bugle.partition p ON p.id = m.part
  JOIN bugle.queue q ON q.id = p.queue
  CROSS JOIN LATERAL (
    SELECT count(*) AS groups, count(*) FILTER (WHERE v.is_done) AS done_by, count(*) FILTER (WHERE v.until IS NOT NULL) AS leased_by
    FROM bugle.groups_of_message(m.part, m.seq) v
  ) g
  ORDER BY u.o;
END $$;

-- What a message is to each group of its queue.
CREATE FUNCTION bugle.groups_of_message(p_part int, p_seq bigint) RETURNS TABLE (
  group_name text, is_done boolean, until timestamptz, tries int, error text
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT g.name::text, p_seq <= greatest(t.cur, g.start),
    CASE WHEN t.held AND p_seq > greatest(t.cur, g.start) AND p_seq <= t.hi AND t.until > clock_timestamp() THEN t.until END, d.tries, d.error
  FROM bugle.partition p
  JOIN bugle.consumer_group g ON g.queue = p.queue
  LEFT JOIN LATERAL (SELECT c.* FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
  LEFT JOIN bugle.dead_message d ON d.part = p.id AND d.group_name = g.name AND d.seq = p_seq
  WHERE p.id = p_part
  ORDER BY g.name;
END $$;

-- Visible messages of namespace p_namespace, the newest first, at most p_most: of a queue, a partition, pushed from p_from to p_to, behind the seq
-- p_before, unless those are NULL. Numbers are given out for all partitions together, so the newest messages are sought behind a number close to the
-- newest one, and further back only when there are too few: else every partition would be read p_most deep.
CREATE FUNCTION bugle.list_messages(
  p_namespace int, p_queue text, p_partition text, p_from timestamptz, p_to timestamptz, p_before bigint, p_most bigint
) RETURNS TABLE (
  id uuid, key text, trace uuid, sub text, queue text, part int, partition text, seq bigint, n bigint, at timestamptz,
  groups bigint, done_by bigint, leased_by bigint, dead_for bigint
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  oldest bigint := bugle.seq_before(p_from);
  newest bigint := least(p_before - 1, bugle.seq_after(p_to), bugle.newest_seq());   -- without p_to's all that is younger would be read
  width bigint := 2 * p_most;
  parts int[];
  seqs bigint[];
BEGIN
  LOOP
    SELECT array_agg(l.part ORDER BY l.seq DESC), array_agg(l.seq ORDER BY l.seq DESC) INTO parts, seqs
    FROM (
      SELECT h.part, h.seq
      FROM bugle.queue q
      JOIN bugle.message_queue m ON m.queue = q.id
      JOIN bugle.partition p ON p.queue = q.id
      CROSS JOIN LATERAL (
        SELECT k.part, k.seq FROM bugle.message k
        WHERE k.part = p.id AND k.seq > greatest(m.floor, oldest, newest - width) AND k.seq <= newest
          AND (p_from IS NULL OR k.at >= p_from) AND (p_to IS NULL OR k.at < p_to)
        ORDER BY k.seq DESC LIMIT p_most
      ) h
      WHERE q.namespace = p_namespace AND (p_queue IS NULL OR q.name = p_queue) AND (p_partition IS NULL OR p.name = p_partition)
      ORDER BY h.seq DESC LIMIT p_most
    ) l;
    EXIT WHEN cardinality(seqs) >= p_most OR newest - width <= oldest;
    width := width * 8;
  END LOOP;
  RETURN QUERY SELECT d.* FROM bugle.describe_messages(parts, seqs) d;
END $$;

-- The place and the payload of the newest message of a partition with this key, or with this id. By its key it is one probe for each generation,
-- for as long as keys are kept; otherwise its partition is read.
CREATE FUNCTION bugle.find_message(p_namespace int, p_part int, p_key text) RETURNS TABLE (seq bigint, payload text) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  lowest bigint;
  place bigint;
BEGIN
  SELECT m.floor INTO lowest
  FROM bugle.partition p
  JOIN bugle.queue q ON q.id = p.queue AND q.namespace = p_namespace
  JOIN bugle.message_queue m ON m.queue = q.id
  WHERE p.id = p_part;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT k.seq INTO place FROM bugle.message_key k WHERE k.part = p_part AND k.key = p_key ORDER BY k.gen DESC LIMIT 1;
  IF NOT FOUND THEN
    SELECT h.seq INTO place FROM bugle.message h WHERE h.part = p_part AND h.seq > lowest AND coalesce(h.key, h.id::text) = p_key ORDER BY h.seq DESC LIMIT 1;
  END IF;
  RETURN QUERY SELECT h.seq, h.payload FROM bugle.message h WHERE h.part = p_part AND h.seq = place AND h.seq > lowest;
END $$;
