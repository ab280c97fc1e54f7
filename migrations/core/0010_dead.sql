-- What people do with many dead jobs: make them ready again, or delete them, in steps. Each step is a short transaction that reads the next
-- p_most dead jobs of the namespace in the order of their ids, whether they match or not. last tells where the next step begins;
-- read < p_most: this was the last one. A filter that is NULL matches all. A job that dies again meanwhile keeps its id, so no step meets it twice.

-- What a step reads.
CREATE FUNCTION bugle.match_dead(p_namespace text, p_queue text, p_kind text, p_code text, p_older interval, p_after bigint, p_most int)
RETURNS TABLE (id bigint, queue text, kind text, code text, died_at timestamptz, matches boolean) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  until timestamptz := clock_timestamp() - coalesce(p_older, interval '0');
  space int := (SELECT n.id FROM bugle.namespace n WHERE n.name = p_namespace);
BEGIN
  IF p_most IS NULL OR p_most NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'a step of % dead jobs was asked for; allowed are 1 to 10000', coalesce(p_most::text, 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Take several steps.';
  END IF;
  RETURN QUERY
  SELECT d.id, q.name::text, d.kind, d.code, d.died_at,
    d.died_at <= until AND q.name = coalesce(p_queue, q.name) AND d.kind = coalesce(p_kind, d.kind) AND d.code = coalesce(p_code, d.code)
  FROM (
    SELECT b.* FROM bugle.dead b
    WHERE b.id > p_after AND b.queue IN (SELECT s.id FROM bugle.queue s WHERE s.namespace = space)
    ORDER BY b.id LIMIT p_most
  ) d
  JOIN bugle.queue q ON q.id = d.queue;
END $$;

-- A purge is the only move to no state: the job is gone.
ALTER TABLE bugle.move ALTER COLUMN to_state DROP NOT NULL;
INSERT INTO bugle.move (id, cause, from_state, to_state) VALUES (16, 'purge', 'dead', NULL);

-- A step that changes those that match and that nobody else has in hand. p_do 'redrive': they are ready, with all their attempts anew.
-- 'purge': they are deleted for good; their failed attempts age like all others, and their keys last to the end of their window.
CREATE FUNCTION bugle.change_dead(
  p_do text, p_namespace text, p_queue text, p_kind text, p_code text, p_older interval, p_after bigint, p_most int,
  OUT read int, OUT changed int, OUT last bigint
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  matching bigint[];
  queues int[];
BEGIN
  IF p_do IS NULL OR p_do NOT IN ('redrive', 'purge') THEN
    RAISE EXCEPTION 'dead jobs cannot be changed by "%"', coalesce(left(p_do, 80), 'NULL')
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Use redrive or purge.';
  END IF;
  SELECT count(*), max(m.id), coalesce(array_agg(m.id) FILTER (WHERE m.matches), '{}') INTO read, last, matching
  FROM bugle.match_dead(p_namespace, p_queue, p_kind, p_code, p_older, p_after, p_most) m;
  WITH gone AS (
    DELETE FROM bugle.dead d
    WHERE d.id = ANY (ARRAY(SELECT k.id FROM bugle.dead k WHERE k.id = ANY (matching) FOR UPDATE SKIP LOCKED))
    RETURNING d.*
  ), written AS (
    INSERT INTO bugle.job (queue, lane, id, enqueued_at, max_attempts, kind, key, extra, payload)
    SELECT queue, lane, id, enqueued_at, max_attempts, kind, key, extra, payload FROM gone WHERE p_do = 'redrive' ORDER BY id
  ), counted AS (
    INSERT INTO bugle.tally (queue, move, n) SELECT queue, CASE p_do WHEN 'redrive' THEN 14 ELSE 16 END, count(*) FROM gone GROUP BY queue
  )
  SELECT count(*), coalesce(array_agg(DISTINCT queue) FILTER (WHERE p_do = 'redrive'), '{}') INTO changed, queues FROM gone;
  PERFORM bugle.check_bell(q) FROM unnest(queues) AS q;   -- once a queue, however many jobs
END $$;
