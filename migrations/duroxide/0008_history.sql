-- Reading and writing history.

-- The history of an instance's current execution, as far as the caller lacks it: it has the events up to p_event of execution p_execution in incarnation
-- p_incarnation. whole: it has nothing of use, this is everything. No row: there is no such instance.
CREATE FUNCTION bugle.read_history(p_instance text, p_incarnation bigint, p_execution bigint, p_event bigint) RETURNS TABLE (
  incarnation bigint, execution bigint, last_event bigint, whole boolean, data text[]
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  SELECT i.incarnation, i.execution, i.last_event INTO incarnation, execution, last_event FROM bugle.instance i WHERE i.id = p_instance;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  whole := p_incarnation IS DISTINCT FROM incarnation OR p_execution IS DISTINCT FROM execution OR last_event < p_event;
  IF whole OR last_event > p_event THEN
    data := ARRAY(
      SELECT h.data FROM bugle.history h
      WHERE h.instance = p_instance AND h.execution = read_history.execution AND h.event > CASE WHEN whole THEN -1 ELSE p_event END
      ORDER BY h.event
    );
  ELSE
    data := '{}';
  END IF;
  RETURN NEXT;
END $$;

-- Adds events outside of a turn, for tools and tests. Caches must read anew.
CREATE FUNCTION bugle.append_history(p_instance text, p_execution bigint, p_events bigint[], p_kinds text[], p_data text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.instance AS i (id, execution, last_event)
  SELECT p_instance, p_execution, coalesce(max(e), 0) FROM unnest(p_events) AS e
  ON CONFLICT (id) DO UPDATE SET
    incarnation = nextval('bugle.incarnation'),
    node = NULL,
    last_event = CASE WHEN i.execution = p_execution THEN greatest(i.last_event, excluded.last_event) ELSE i.last_event END;
  INSERT INTO bugle.history (instance, execution, event, kind, data)
  SELECT p_instance, p_execution, e.event, e.kind, e.data FROM unnest(p_events, p_kinds, p_data) AS e (event, kind, data);
END $$;
