-- Waiting for the ends of jobs. Whoever waits looks at what has ended since his look before: it costs as much as has ended, however many
-- wait and however long the history is.

-- Which jobs ended: one row per statement that ended some, like tally. Insert-only, read from its newest end, trimmed by the sweep.
CREATE TABLE bugle.ended (
  queue int NOT NULL,
  x bigint NOT NULL DEFAULT txid_current(),                            -- always the default, as in job
  state text NOT NULL,                                                 -- done, dead or cancelled
  ids bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast_tuple_target = 8160);   -- a batch stays in one piece, uncompressed
CREATE INDEX ended_x ON bugle.ended (queue, x);

ALTER TABLE bugle.meta
  ADD COLUMN ended_from bigint NOT NULL DEFAULT 0,                     -- rows of ended below this x may be gone
  ADD COLUMN ended_mark bigint NOT NULL DEFAULT 0,                     -- rows below this one go next
  ADD COLUMN ended_mark_at timestamptz NOT NULL DEFAULT now();

-- Rule 1, for ends. Here and not in every function that ends jobs: none can forget it.
CREATE FUNCTION bugle.ring_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bugle.check_bell(-NEW.queue);
  RETURN NULL;
END $$;
CREATE TRIGGER ring_ended AFTER INSERT ON bugle.ended FOR EACH ROW EXECUTE FUNCTION bugle.ring_ended();

-- Keeps ended short; a part of trim(). Every row stays for at least ten minutes after its commit: what goes is older than every transaction
-- that was open at the mark, and the mark is that old. Whoever has not looked for longer is told so by ended_from.
CREATE FUNCTION bugle.trim_ended(p_now timestamptz) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  m bugle.meta;
  removed bigint;
BEGIN
  SELECT * INTO m FROM bugle.meta;
  IF p_now < m.ended_mark_at + interval '10 minutes' THEN
    RETURN 0;
  END IF;
  DELETE FROM bugle.ended e USING bugle.queue q WHERE e.queue = q.id AND e.x < m.ended_mark;
  GET DIAGNOSTICS removed = ROW_COUNT;
  UPDATE bugle.meta SET ended_from = ended_mark, ended_mark = pg_snapshot_xmin(pg_current_snapshot())::text::bigint, ended_mark_at = p_now;
  RETURN removed;
END $$;

-- A part of rebase(): the rows carry numbers of another cluster's transactions.
CREATE FUNCTION bugle.forget_ended() RETURNS void LANGUAGE sql AS $$
  DELETE FROM bugle.ended;
  UPDATE bugle.meta SET ended_from = 0, ended_mark = 0;
$$;

-- One look for everybody who waits for ends. p_standing: jobs of which an earlier look knew that they had not ended, in the snapshot p_seen of
-- its queue (NULL: none of that queue's); p_fresh: jobs that nobody has looked for yet, found by their ids. A row for each of them that has
-- ended, then one without id for each queue: what the next look may rely on, and whether the queue keeps history (otherwise nothing tells of
-- a job that is done). A job that died is told as dead although somebody has made it ready again since.
-- STABLE, so that all of it is read in one snapshot, the one that it returns.
CREATE FUNCTION bugle.look_ends(p_queue int[], p_seen text[], p_standing bigint[], p_fresh bigint[]) RETURNS TABLE (
  queue int, seen text, queue_name text, keeps_history boolean,
  id bigint, state text, attempt smallint, ended_at timestamptz, worker text, result jsonb, code text, message text
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  current pg_snapshot := pg_current_snapshot();
  asked bigint[] := p_fresh;   -- looked for by id alone
  told bigint[] := '{}';       -- those that have ended since, and as what
  told_as text[] := '{}';
  lost boolean;
BEGIN
  -- What lies between the two looks may have been trimmed, or belongs to a server that has forgotten some of its transactions.
  SELECT coalesce(bool_or(pg_snapshot_xmin(s.seen::pg_snapshot)::text::bigint < m.ended_from OR pg_snapshot_xmax(s.seen::pg_snapshot) > pg_snapshot_xmax(current)), false)
  INTO lost
  FROM unnest(p_seen) AS s (seen)
  CROSS JOIN bugle.meta m;
  IF lost THEN
    asked := asked || p_standing;
  ELSIF p_standing <> '{}' THEN
    -- Whatever the earlier look could not see: of later transactions, and of those that were open then.
    SELECT coalesce(array_agg(w.id), '{}'), coalesce(array_agg(e.state), '{}') INTO told, told_as
    FROM unnest(p_queue, p_seen) AS s (queue, seen)
    CROSS JOIN LATERAL (
      SELECT l.state, l.ids FROM bugle.ended l
      WHERE l.queue = s.queue AND l.x >= pg_snapshot_xmax(s.seen::pg_snapshot)::text::bigint
      UNION ALL
      SELECT l.state, l.ids FROM bugle.ended l
      WHERE l.queue = s.queue AND l.x = ANY (ARRAY(SELECT pg_snapshot_xip(s.seen::pg_snapshot)::text::bigint))
    ) e
    CROSS JOIN LATERAL unnest(e.ids) AS i (id)
    JOIN unnest(p_standing) AS w (id) ON w.id = i.id;
  END IF;
  RETURN QUERY
  SELECT NULL::int, NULL::text, NULL::text, NULL::boolean,
    a.id, coalesce(h.state, r.state, 'dead'), coalesce(h.attempt, d.attempt, f.attempt, 0::smallint), coalesce(h.finished_at, r.ended_at, d.died_at, f.failed_at, clock_timestamp()), coalesce(h.worker, d.worker, f.worker), h.result, coalesce(d.code, f.code), coalesce(d.message, f.message)
  FROM (
    SELECT u.id, NULL AS state FROM unnest(asked) AS u (id)
    UNION
    SELECT u.id, u.state FROM unnest(told, told_as) AS u (id, state)
  ) a
  LEFT JOIN LATERAL (
    SELECT * FROM bugle.history k WHERE k.id = a.id LIMIT 1
  ) h ON true
  LEFT JOIN bugle.dead d ON d.id = a.id
  LEFT JOIN bugle.run r ON r.id = a.id AND r.ended_at IS NOT NULL   -- the run of a workflow (0021)
  LEFT JOIN LATERAL (
    SELECT * FROM bugle.failure k
    WHERE k.id = a.id AND h.id IS NULL AND d.id IS NULL AND r.id IS NULL AND a.state = 'dead'   -- made ready again since
    ORDER BY k.failed_at DESC LIMIT 1
  ) f ON true
  WHERE h.id IS NOT NULL OR d.id IS NOT NULL OR r.id IS NOT NULL OR a.state = 'dead';
  RETURN QUERY
  SELECT q.id, current::text, q.name::text, q.history OR q.holds = 'steps', NULL::bigint, NULL::text, NULL::smallint, NULL::timestamptz, NULL::text, NULL::jsonb, NULL::text, NULL::text
  FROM bugle.queue q
  WHERE q.id = ANY (p_queue);
END $$;
