-- What people see of runs. Nothing that a step waits for reads these; the indexes lead to the newest runs of a namespace, and to the newest of
-- each definition and state. Every list goes by them from its end, however many runs there are.

-- Events of one step at one moment in the order in which they were written: by hand a step is made pending and then ready at the same moment.
-- A session takes some numbers at a time, so that they order what one transaction wrote, and nothing else.
CREATE SEQUENCE bugle.flow_event_seq CACHE 32;
ALTER TABLE bugle.flow_event ADD COLUMN seq bigint NOT NULL DEFAULT nextval('bugle.flow_event_seq');

DROP INDEX bugle.run_recent;
CREATE INDEX run_recent ON bugle.run (namespace, created_at, id);
CREATE INDEX run_of ON bugle.run (definition, state, created_at, id);
DROP INDEX bugle.run_failed;
CREATE INDEX run_failed ON bugle.run (definition, ended_at, id) WHERE state = 'failed';

-- The definitions of a namespace, of one name or of all.
CREATE FUNCTION bugle.definitions(p_namespace text, p_name text) RETURNS SETOF bugle.definition LANGUAGE sql STABLE AS $$
  SELECT d.* FROM bugle.namespace n JOIN bugle.definition d ON d.namespace = n.id WHERE n.name = p_namespace AND (p_name IS NULL OR d.name = p_name)
$$;

-- How many runs of a definition are in one of these states, counted up to p_most.
CREATE FUNCTION bugle.count_runs(p_definition int, p_states text[], p_most int) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM unnest(p_states) AS s (state)
      CROSS JOIN LATERAL (SELECT FROM bugle.run r WHERE r.definition = p_definition AND r.state = s.state LIMIT p_most) one
      LIMIT p_most
    ) found);
END $$;

-- The newest runs of a definition in one state, behind a place in that order.
CREATE FUNCTION bugle.newest_runs(p_definition int, p_state text, p_from timestamptz, p_before timestamptz, p_before_id bigint, p_most bigint) RETURNS SETOF bugle.run LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT * FROM bugle.run r
  WHERE r.definition = p_definition AND r.state = p_state AND r.created_at >= p_from AND (r.created_at, r.id) < (p_before, p_before_id)
  ORDER BY r.created_at DESC, r.id DESC LIMIT p_most;
END $$;

-- The runs of a definition that failed last, behind a place in that order.
CREATE FUNCTION bugle.newest_failed(p_definition int, p_before timestamptz, p_before_id bigint, p_most bigint) RETURNS SETOF bugle.run LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
  RETURN QUERY
  SELECT * FROM bugle.run r
  WHERE r.definition = p_definition AND r.state = 'failed' AND (r.ended_at, r.id) < (p_before, p_before_id)
  ORDER BY r.ended_at DESC, r.id DESC LIMIT p_most;
END $$;
