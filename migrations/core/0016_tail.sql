-- Messages in users' own transactions. Such a transaction takes no partition's lock and makes no partition: an open one blocks nobody. Its
-- messages get their numbers after its commit, by whoever looks.

-- Pushes a message in the caller's transaction: it exists when that commits, and only then. Returns its id. A queue that is full refuses it
-- here (BGL06), by what has a number: what was accepted is numbered in any case. Two messages with one key: the
-- second is dropped when it is numbered, and nobody is left to be told.
CREATE FUNCTION bugle.push(queue text, partition text, payload jsonb, key text DEFAULT NULL, namespace text DEFAULT 'default') RETURNS uuid LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  a_queue ALIAS FOR queue; a_partition ALIAS FOR partition; a_payload ALIAS FOR payload; a_key ALIAS FOR key; a_namespace ALIAS FOR namespace;
  number int;
  new_id uuid;
BEGIN
  IF octet_length(a_partition) NOT BETWEEN 1 AND 255 OR a_partition ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'partition name is % bytes long; allowed are 1 to 255 bytes without control characters', octet_length(a_partition)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Choose another name for the partition.';
  ELSIF octet_length(a_key) NOT BETWEEN 1 AND 255 OR a_key ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION 'key is % bytes long; allowed are 1 to 255 bytes without control characters', octet_length(a_key)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter key, such as a hash of this one.';
  ELSIF octet_length(a_payload::text) > 1048576 THEN
    RAISE EXCEPTION 'payload is % bytes long; allowed are at most 1048576', octet_length(a_payload::text)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Store the data elsewhere and push a reference to it.';
  END IF;
  SELECT q.id INTO number FROM bugle.queue q JOIN bugle.namespace n ON n.id = q.namespace WHERE n.name = a_namespace AND q.name = a_queue AND q.holds = 'messages';
  IF NOT FOUND THEN
    number := bugle.declare_queue(a_queue, a_namespace, 'messages');
  END IF;
  IF EXISTS (SELECT FROM bugle.queue_room(ARRAY[number]) r WHERE r.room < 1) THEN
    RAISE EXCEPTION 'queue "%" is full', left(a_queue, 80) USING ERRCODE = 'BGL06', HINT = 'Try again when its groups have done some of its messages, or raise messages_max.';
  END IF;
  INSERT INTO bugle.tail (queue, partition, key, payload)
  VALUES (number, coalesce(a_partition, 'Default'), a_key, coalesce(a_payload, 'null')::text)
  RETURNING id INTO new_id;
  PERFORM bugle.check_bell(number);
  RETURN new_id;
END $$;

-- Is there something that has no number yet?
CREATE FUNCTION bugle.tail_waits() RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  mark pg_snapshot;
BEGIN
  SELECT m.seen INTO mark FROM bugle.tail_mark m ORDER BY m.no DESC LIMIT 1;
  RETURN EXISTS (SELECT FROM bugle.tail t WHERE t.xid >= pg_snapshot_xmax(mark))
    OR EXISTS (SELECT FROM bugle.tail t WHERE t.xid = ANY (ARRAY(SELECT pg_snapshot_xip(mark))));
END $$;

-- What was not yet committed when the mark was made, as far as it is now. In two parts, each through the index: an OR would read all of it.
CREATE FUNCTION bugle.tail_since(p_mark pg_snapshot) RETURNS SETOF bugle.tail LANGUAGE sql STABLE AS $$
  SELECT t.* FROM bugle.tail t WHERE t.xid >= pg_snapshot_xmax(p_mark)
  UNION ALL
  SELECT t.* FROM bugle.tail t WHERE t.xid = ANY (ARRAY(SELECT pg_snapshot_xip(p_mark)))
$$;

-- Numbers what has been committed since the last mark, and writes the next one: together, so each message gets one number. The order is that of
-- the calls: a producer's earlier transaction is visible whenever its later one is. Returns how many there were; -1: somebody else is at it.
CREATE FUNCTION bugle.number_tail() RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  mark pg_snapshot;
  next_mark pg_snapshot;
  queues int[];
  names text[];
  parts int[];
  total bigint;
  chunk record;
BEGIN
  PERFORM bugle.check_read_committed('numbering');
  IF NOT pg_try_advisory_xact_lock(bugle.broker_class(), 2) THEN
    RETURN -1;
  END IF;
  SELECT m.seen INTO mark FROM bugle.tail_mark m ORDER BY m.no DESC LIMIT 1;
  -- One statement, one snapshot: what it sees is what the next mark says.
  SELECT count(*), pg_current_snapshot() INTO total, next_mark FROM bugle.tail_since(mark);
  IF total = 0 THEN
    RETURN 0;
  END IF;
  -- All locks before the first number: they are taken in one order by everybody.
  SELECT array_agg(d.queue), array_agg(d.partition) INTO queues, names
  FROM (
    SELECT DISTINCT t.queue, t.partition FROM bugle.tail_since(mark) t
    WHERE pg_visible_in_snapshot(t.xid, next_mark)
  ) d;
  PERFORM bugle.declare_partitions(queues, names);
  parts := bugle.find_partitions(queues, names);
  PERFORM bugle.lock_partitions(parts);
  FOR chunk IN
    SELECT array_agg(t.queue ORDER BY t.place) AS queue, array_agg(t.partition ORDER BY t.place) AS partition, array_agg(t.id ORDER BY t.place) AS id,
      array_agg(t.key ORDER BY t.place) AS key, array_agg(t.payload ORDER BY t.place) AS payload
    FROM (
      SELECT a.*, (row_number() OVER (ORDER BY a.place) - 1) / 1000 AS no
      FROM bugle.tail_since(mark) a
      WHERE pg_visible_in_snapshot(a.xid, next_mark)
    ) t
    GROUP BY t.no ORDER BY t.no
  LOOP
    PERFORM bugle.push_messages(chunk.queue, chunk.partition, chunk.id, chunk.key,
      array_fill(NULL::uuid, ARRAY[cardinality(chunk.id)]), array_fill(NULL::text, ARRAY[cardinality(chunk.id)]), chunk.payload, true);
  END LOOP;
  INSERT INTO bugle.tail_mark (seen) VALUES (next_mark);
  RETURN total;
END $$;
