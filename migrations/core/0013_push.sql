-- Writing messages. READ COMMITTED only: what is read after a partition's lock must be younger than the lock.

-- A part of declare_queue(). The name "orders.mail" also says two tags, as with Queen: whoever waits by tags must learn of it.
CREATE FUNCTION bugle.declare_message_queue(p_number int, p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.message_queue (queue, tag_namespace, tag_task)
  SELECT p_number, nullif(split_part(t.name, '.', 1), ''), nullif(split_part(t.name, '.', 2), '')
  FROM (SELECT CASE WHEN position('.' IN p_name) > 0 THEN p_name ELSE '' END AS name) t;
  IF position('.' IN p_name) > 0 THEN
    PERFORM bugle.ring_control_under_lock();
  END IF;
END $$;

-- The ids of partitions by queue and name, in the order of the names; NULL: there is none yet.
CREATE FUNCTION bugle.find_partitions(p_queue int[], p_name text[]) RETURNS int[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  ids int[];
BEGIN
  SELECT array_agg(p.id ORDER BY u.o) INTO ids
  FROM unnest(p_queue, p_name) WITH ORDINALITY AS u (queue, name, o)
  LEFT JOIN bugle.partition p ON p.queue = u.queue AND p.name = u.name;
  RETURN ids;
END $$;

-- Makes the partitions that are missing, of queues that are there and hold messages. Whoever makes some waits for whoever just makes others,
-- so nobody waits in a circle; a user's own transaction never makes any (0016), so nobody waits for long.
CREATE FUNCTION bugle.declare_partitions(p_queue int[], p_name text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(bugle.broker_class(), 1);
  INSERT INTO bugle.partition (queue, name)
  SELECT DISTINCT u.queue, u.name
  FROM unnest(p_queue, p_name) AS u (queue, name)
  JOIN bugle.message_queue m ON m.queue = u.queue
  WHERE NOT EXISTS (SELECT FROM bugle.partition p WHERE p.queue = u.queue AND p.name = u.name)
  ORDER BY u.queue, u.name
  ON CONFLICT DO NOTHING;
END $$;

-- The locks of partitions, in one order for everybody, held to the end of the transaction: until what it wrote is visible.
CREATE FUNCTION bugle.lock_partitions(p_part int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(bugle.partition_class(), u.part)
  FROM (SELECT DISTINCT p AS part FROM unnest(p_part) AS p WHERE p IS NOT NULL ORDER BY p) u;
END $$;

-- Messages of a queue that not all of its groups have done; without a group all that are visible. Three probes for each partition and one for
-- each of its groups, whatever the number of messages.
CREATE FUNCTION bugle.queue_depth(p_queue int) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN (
    SELECT coalesce(sum(last.n - first.n + 1), 0)
    FROM bugle.message_queue q
    JOIN bugle.partition p ON p.queue = q.queue
    CROSS JOIN LATERAL (
      SELECT coalesce(min(greatest(t.cur, g.start, q.floor)), q.floor) AS cur
      FROM bugle.consumer_group g
      LEFT JOIN LATERAL (SELECT c.cur FROM bugle.group_cursor c WHERE c.part = p.id AND c.grp = g.id ORDER BY c.ver DESC LIMIT 1) t ON true
      WHERE g.queue = q.queue
    ) done
    CROSS JOIN LATERAL (SELECT m.n FROM bugle.message m WHERE m.part = p.id AND m.seq > done.cur ORDER BY m.seq LIMIT 1) first
    CROSS JOIN LATERAL (SELECT m.n FROM bugle.message m WHERE m.part = p.id ORDER BY m.seq DESC LIMIT 1) last
    WHERE q.queue = p_queue
  );
END $$;

-- How many messages each of these queues may still take, of those that were told a most number; p_queue names a queue once for each message
-- that shall be written. Numbers are given out for all queues together, so a queue has grown by no more than they have since it was counted:
-- as long as that leaves room, nothing is counted. What commits just now is not seen: a queue may become too long by as much as is being
-- written at the same moment.
CREATE FUNCTION bugle.queue_room(p_queue int[]) RETURNS TABLE (queue int, room bigint) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  capped record;
  newest bigint;
  depth bigint;
BEGIN
  FOR capped IN
    SELECT m.queue, m.messages_max, count(*) AS messages
    FROM unnest(p_queue) AS u (queue) JOIN bugle.message_queue m ON m.queue = u.queue
    WHERE m.messages_max > 0
    GROUP BY m.queue
    ORDER BY m.queue
  LOOP
    newest := bugle.newest_seq();   -- before the count: what comes in between counts twice, never not at all
    SELECT c.depth + newest - c.seq INTO depth FROM bugle.message_count c
    WHERE c.queue = capped.queue AND c.at > clock_timestamp() - interval '10 seconds' ORDER BY c.seq DESC LIMIT 1;
    IF depth IS NULL OR depth + capped.messages > capped.messages_max THEN
      depth := bugle.queue_depth(capped.queue);
      IF depth + capped.messages < capped.messages_max THEN
        INSERT INTO bugle.message_count (queue, seq, depth) VALUES (capped.queue, newest, depth);
      END IF;
    END IF;
    queue := capped.queue;
    room := greatest(capped.messages_max - depth, 0);
    RETURN NEXT;
  END LOOP;
END $$;

-- Which of these messages, by their places, their queues have no room for: a queue takes the first ones. Duplicates take none. NULL: there is
-- room for all of them.
CREATE FUNCTION bugle.beyond_room(p_queue int[], p_part int[], p_key text[], p_oldest int, p_newest int) RETURNS int[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN (
    SELECT array_agg(n.o)
    FROM (
      SELECT u.o::int AS o, r.room, row_number() OVER (PARTITION BY u.queue ORDER BY u.o) AS nth
      FROM (
        SELECT i.*, row_number() OVER (PARTITION BY i.part, i.key ORDER BY i.o) AS of_its_key
        FROM unnest(p_queue, p_part, p_key) WITH ORDINALITY AS i (queue, part, key, o)
      ) u
      JOIN bugle.queue_room(p_queue) r ON r.queue = u.queue
      WHERE u.part IS NOT NULL AND (u.key IS NULL OR u.of_its_key = 1
        AND NOT EXISTS (SELECT FROM bugle.message_key d WHERE d.part = u.part AND d.key = u.key AND d.gen BETWEEN p_oldest AND p_newest))
    ) n
    WHERE n.nth > n.room
  );
END $$;

-- Pushes messages of many callers, queues and partitions with one statement. A row for each, in their order: its partition (NULL: there is no
-- queue of messages with that number, and nothing was written for it), its seq (NULL: it is a duplicate, or its queue is full), the id that the
-- message has (that of the first for a duplicate), and the most messages that its queue may hold if it is full. A queue takes the first of
-- them that it has room for. Payloads were checked to be JSON, ids are new ones. p_accepted: they were accepted before, and no queue is full.
CREATE FUNCTION bugle.push_messages(
  p_queue int[], p_partition text[], p_id uuid[], p_key text[], p_trace uuid[], p_sub text[], p_payload text[], p_accepted boolean DEFAULT false
) RETURNS TABLE (o int, part int, seq bigint, id uuid, full_at int) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  parts int[];
  newest int;
  oldest int;
  refused int[];   -- those that their queues have no room for
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM bugle.check_read_committed('push');
  END IF;
  parts := bugle.find_partitions(p_queue, p_partition);
  IF array_position(parts, NULL) IS NOT NULL THEN
    PERFORM bugle.declare_partitions(p_queue, p_partition);
    parts := bugle.find_partitions(p_queue, p_partition);
  END IF;
  PERFORM bugle.lock_partitions(parts);
  -- Every statement from here on has a snapshot younger than the locks.
  SELECT (s.last_value >> 32)::int, CASE WHEN num_nonnulls(VARIADIC p_key) > 0 THEN bugle.oldest_key_generation() END INTO newest, oldest FROM bugle.message_seq s;
  IF NOT p_accepted AND EXISTS (SELECT FROM bugle.message_queue m WHERE m.queue = ANY (p_queue) AND m.messages_max > 0) THEN
    refused := bugle.beyond_room(p_queue, parts, p_key, oldest, newest);
  END IF;
  RETURN QUERY
  WITH item AS MATERIALIZED (
    SELECT u.o::int AS o, u.queue, u.part, u.id, u.key, u.trace, u.sub, u.payload,
      u.key IS NOT NULL AND row_number() OVER (PARTITION BY u.part, u.key ORDER BY u.o) > 1 AS twin
    FROM unnest(p_queue, parts, p_id, p_key, p_trace, p_sub, p_payload) WITH ORDINALITY AS u (queue, part, id, key, trace, sub, payload, o)
  ), known AS MATERIALIZED (   -- the first of the same key
    SELECT i.o, k.id
    FROM item i
    CROSS JOIN LATERAL (SELECT d.id FROM bugle.message_key d WHERE d.part = i.part AND d.key = i.key AND d.gen BETWEEN oldest AND newest LIMIT 1) k
    WHERE i.key IS NOT NULL
  ), fresh AS MATERIALIZED (
    SELECT i.* FROM item i
    WHERE i.part IS NOT NULL AND NOT i.twin AND NOT EXISTS (SELECT FROM known k WHERE k.o = i.o) AND (refused IS NULL OR i.o <> ALL (refused))
  ), placed AS MATERIALIZED (
    SELECT f.*, row_number() OVER (PARTITION BY f.part ORDER BY f.o) AS place FROM fresh f
  ), based AS MATERIALIZED (   -- one probe for each partition, and no join: the planner takes many for few
    SELECT p.*, CASE WHEN p.place = 1 THEN coalesce(
      (SELECT m.n FROM bugle.message m WHERE m.part = p.part ORDER BY m.seq DESC LIMIT 1),
      (SELECT h.base_n FROM bugle.partition h WHERE h.id = p.part)) END AS last_n
    FROM placed p
  ), written AS (
    INSERT INTO bugle.message (part, seq, n, at, id, trace, key, sub, payload)
    SELECT z.part, nextval('bugle.message_seq'), z.n, clock_timestamp(), z.id, z.trace, z.key, z.sub, z.payload
    FROM (SELECT b.*, max(b.last_n) OVER (PARTITION BY b.part) + b.place AS n FROM based b ORDER BY b.o) z
    RETURNING message.part, message.seq, message.id, message.key
  ), keyed AS (
    INSERT INTO bugle.message_key (part, key, gen, id, seq) SELECT w.part, w.key, newest, w.id, w.seq FROM written w WHERE w.key IS NOT NULL
  ), told AS (   -- rule 1 of docs/wake.md
    INSERT INTO bugle.news (queue, parts) SELECT f.queue, array_agg(DISTINCT f.part) FROM fresh f GROUP BY f.queue
    RETURNING bugle.check_bell(queue)
  )
  SELECT i.o, i.part, w.seq,
    CASE WHEN w.id IS NULL THEN coalesce(k.id, (SELECT f.id FROM fresh f WHERE f.part = i.part AND f.key = i.key), i.id) ELSE i.id END,
    CASE WHEN refused IS NOT NULL AND i.part IS NOT NULL AND w.id IS NULL AND k.id IS NULL AND NOT EXISTS (SELECT FROM fresh f WHERE f.part = i.part AND f.key = i.key)
      THEN (SELECT m.messages_max FROM bugle.message_queue m WHERE m.queue = i.queue) END
  FROM item i
  LEFT JOIN written w ON w.id = i.id
  LEFT JOIN known k ON k.o = i.o
  ORDER BY i.o;
END $$;

-- Keys of older generations are not asked for.
CREATE FUNCTION bugle.oldest_key_generation() RETURNS int LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
  RETURN coalesce((SELECT max(g.no) FROM bugle.generation g, bugle.meta m WHERE g.opened_at <= clock_timestamp() - m.message_key_window), 0);
END $$;
