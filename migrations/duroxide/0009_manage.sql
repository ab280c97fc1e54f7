-- What people ask and do.

-- An instance and everything below it, itself first.
CREATE FUNCTION bugle.tree_of(p_instance text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  WITH RECURSIVE tree (id, depth) AS (
    SELECT p_instance COLLATE "C", 0
    UNION
    SELECT i.id, t.depth + 1 FROM tree t JOIN bugle.instance i ON i.parent = t.id
  )
  SELECT t.id FROM tree t GROUP BY t.id ORDER BY min(t.depth)
$$;

-- Removes instances with all that is theirs, all of them or none. A turn that is under way finds its lease gone and cannot bring one back.
CREATE FUNCTION bugle.delete_instances(p_ids text[], p_force boolean, OUT instances bigint, OUT executions bigint, OUT events bigint, OUT messages bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_id text;
  v_parent text;
  v_work bigint;
BEGIN
  PERFORM bugle.check_read_committed();
  PERFORM FROM bugle.inbox b WHERE b.instance = ANY (p_ids) ORDER BY b.instance FOR UPDATE;
  PERFORM FROM bugle.instance i WHERE i.id = ANY (p_ids) ORDER BY i.id FOR UPDATE;
  IF NOT p_force THEN
    SELECT i.id INTO v_id FROM bugle.instance i JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
    WHERE i.id = ANY (p_ids) AND e.status = 'Running' LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'instance "%" is still running: cancel it first, or delete it by force', left(v_id, 80) USING ERRCODE = 'BGL02';
    END IF;
  END IF;
  SELECT i.id, i.parent INTO v_id, v_parent FROM bugle.instance i WHERE i.parent = ANY (p_ids) AND i.id <> ALL (p_ids) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'instance "%" has a child "%" that is not to be deleted with it: read its tree again', left(v_parent, 80), left(v_id, 80) USING ERRCODE = 'BGL02';
  END IF;
  DELETE FROM bugle.instance WHERE id = ANY (p_ids);
  GET DIAGNOSTICS instances = ROW_COUNT;
  DELETE FROM bugle.execution WHERE instance = ANY (p_ids);
  GET DIAGNOSTICS executions = ROW_COUNT;
  DELETE FROM bugle.history WHERE instance = ANY (p_ids);
  GET DIAGNOSTICS events = ROW_COUNT;
  DELETE FROM bugle.message WHERE instance = ANY (p_ids);
  GET DIAGNOSTICS messages = ROW_COUNT;
  DELETE FROM bugle.work WHERE instance = ANY (p_ids);
  GET DIAGNOSTICS v_work = ROW_COUNT;
  messages := messages + v_work;
  DELETE FROM bugle.inbox WHERE instance = ANY (p_ids);
  DELETE FROM bugle.kv WHERE instance = ANY (p_ids);
  DELETE FROM bugle.kv_change WHERE instance = ANY (p_ids);
END $$;

-- Does an instance go on, by the status of its current execution? One that has continued as new and has messages is between two of them.
CREATE FUNCTION bugle.goes_on(p_instance text, p_status text) RETURNS boolean LANGUAGE sql STABLE
RETURN p_status = 'Running' OR p_status = 'ContinuedAsNew' AND EXISTS (SELECT FROM bugle.inbox b WHERE b.instance = p_instance);

-- Has everything below an instance ended as well? Its children may outlive it: it need not have waited for them.
CREATE FUNCTION bugle.is_over(p_instance text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (
    SELECT FROM bugle.tree_of(p_instance) AS t (id)
    JOIN bugle.instance i ON i.id = t.id
    JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
    WHERE bugle.goes_on(i.id, e.status)
  )
$$;

-- Removes up to p_limit finished instances that have no parent, each with its tree: those of p_ids (NULL: any) that ended before p_before (NULL: ever).
-- Trees in which something goes on are left as they are.
CREATE FUNCTION bugle.delete_finished(p_ids text[], p_before timestamptz, p_limit bigint, OUT instances bigint, OUT executions bigint, OUT events bigint, OUT messages bigint) LANGUAGE sql AS $$
  WITH RECURSIVE root AS (
    SELECT i.id FROM bugle.instance i JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
    WHERE i.parent IS NULL AND e.status IN ('Completed', 'Failed', 'ContinuedAsNew')
      AND (p_ids IS NULL OR i.id = ANY (p_ids)) AND (p_before IS NULL OR e.completed_at < p_before)
      AND bugle.is_over(i.id)
    LIMIT p_limit
  ), tree (id) AS (
    SELECT r.id FROM root r
    UNION
    SELECT i.id FROM tree t JOIN bugle.instance i ON i.parent = t.id
  )
  -- Not by force: what has begun again since it was looked for is refused.
  SELECT d.* FROM bugle.delete_instances(ARRAY(SELECT t.id FROM tree t), false) d
$$;

-- Removes earlier executions of up to p_limit instances: those of p_ids (NULL: any) whose current execution ended before p_instance_before (NULL: any). Kept are the
-- current one, running ones, the p_keep newest (NULL: none because of that) and those that ended later than p_before (NULL: none because of that).
CREATE FUNCTION bugle.prune(p_ids text[], p_instance_before timestamptz, p_limit bigint, p_keep bigint, p_before timestamptz, OUT instances bigint, OUT executions bigint, OUT events bigint) LANGUAGE plpgsql AS $$
DECLARE
  v_instances text[];
  v_pruned text[];
  v_executions bigint[];
BEGIN
  v_instances := ARRAY(
    SELECT i.id FROM bugle.instance i LEFT JOIN bugle.execution e ON e.instance = i.id AND e.execution = i.execution
    WHERE i.name IS NOT NULL AND (p_ids IS NULL OR i.id = ANY (p_ids)) AND (p_instance_before IS NULL OR e.completed_at < p_instance_before)
    LIMIT p_limit
  );
  instances := cardinality(v_instances);
  WITH pruned AS (
    DELETE FROM bugle.execution x USING bugle.instance i
    WHERE i.id = ANY (v_instances) AND x.instance = i.id AND x.execution <> i.execution AND x.status <> 'Running'
      AND (p_keep IS NULL OR x.execution NOT IN (
        SELECT n.execution FROM bugle.execution n WHERE n.instance = i.id ORDER BY n.execution DESC LIMIT p_keep
      ))
      AND (p_before IS NULL OR x.completed_at < p_before)
    RETURNING x.instance, x.execution
  )
  SELECT coalesce(array_agg(p.instance), '{}'), coalesce(array_agg(p.execution), '{}') INTO v_pruned, v_executions FROM pruned p;
  executions := cardinality(v_pruned);
  DELETE FROM bugle.history h USING unnest(v_pruned, v_executions) AS p (instance, execution)
  WHERE h.instance = p.instance AND h.execution = p.execution;
  GET DIAGNOSTICS events = ROW_COUNT;
END $$;
