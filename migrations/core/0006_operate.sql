-- What people do with jobs: look at them, cancel them, try them again.

-- Is this row of job leased? True when the lane's cursor has passed it.
CREATE FUNCTION bugle.is_claimed(p_queue int, p_lane smallint, p_x bigint, p_id bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  c record;
BEGIN
  SELECT * INTO c FROM bugle.cursor k WHERE k.queue = p_queue AND k.lane = p_lane ORDER BY k.gen DESC LIMIT 1;
  RETURN (p_x, p_id) <= (c.px, c.pid)
    AND NOT EXISTS (SELECT FROM unnest(c.pend_x, c.pend_id) AS u (x, id) WHERE u.x = p_x AND p_id > u.id);
END $$;

-- Every job that Bugle still knows, in one shape. For people and tests: no part of the hot path reads it.
CREATE VIEW bugle.job_view AS
SELECT j.id, j.queue, CASE WHEN bugle.is_claimed(j.queue, j.lane, j.x, j.id) THEN 'leased' ELSE 'ready' END AS state,
  j.lane AS priority, j.attempt, j.max_attempts, j.enqueued_at, j.due_at, NULL::timestamptz AS finished_at, j.kind, j.key, j.payload, j.x
FROM bugle.job j
UNION ALL
SELECT d.id, d.queue, 'scheduled', d.lane, d.attempt, d.max_attempts, d.enqueued_at, d.due_at, NULL, d.kind, d.key, d.payload, NULL
FROM bugle.due d
UNION ALL
SELECT d.id, d.queue, 'dead', d.lane, d.attempt, d.max_attempts, d.enqueued_at, NULL, d.died_at, d.kind, d.key, d.payload, NULL
FROM bugle.dead d
UNION ALL
SELECT h.id, h.queue, h.state, h.lane, h.attempt, h.max_attempts, h.enqueued_at, NULL, h.finished_at, h.kind, h.key, h.payload, NULL
FROM bugle.history h;

-- Ends a job that has not ended. Returns the state that it was in, NULL when there is no such open job.
-- 'ready' and 'scheduled' are certain: it will never start. 'leased': a worker may be running it and will find it gone.
-- Holds the queue's lock until the transaction ends: call it in a transaction of its own.
CREATE FUNCTION bugle.cancel(p_id bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  r record;
  was text;
BEGIN
  FOR round IN 1..10 LOOP   -- the job may move on between finding and deleting it
    DELETE FROM bugle.due d WHERE d.id = p_id RETURNING d.* INTO r;
    IF FOUND THEN
      INSERT INTO bugle.history (queue, lane, attempt, id, enqueued_at, max_attempts, state, kind, key, payload)
      VALUES (r.queue, r.lane, r.attempt, r.id, r.enqueued_at, r.max_attempts, 'cancelled', r.kind, r.key, r.payload);
      INSERT INTO bugle.tally (queue, move, n) VALUES (r.queue, 10, 1);
      RETURN 'scheduled';
    END IF;
    SELECT j.queue, j.lane, j.x INTO r FROM bugle.job j WHERE j.id = p_id;
    EXIT WHEN NOT FOUND AND round > 1;   -- seen in neither table twice in a row: it has ended
    CONTINUE WHEN NOT FOUND;
    PERFORM pg_advisory_xact_lock(bugle.claim_class(), r.queue);
    was := CASE WHEN bugle.is_claimed(r.queue, r.lane, r.x, p_id) THEN 'leased' ELSE 'ready' END;
    DELETE FROM bugle.job j WHERE j.queue = r.queue AND j.lane = r.lane AND j.x = r.x AND j.id = p_id RETURNING j.* INTO r;
    IF FOUND THEN
      INSERT INTO bugle.history (queue, lane, attempt, id, enqueued_at, max_attempts, state, kind, key, payload)
      VALUES (r.queue, r.lane, r.attempt, r.id, r.enqueued_at, r.max_attempts, 'cancelled', r.kind, r.key, r.payload);
      INSERT INTO bugle.tally (queue, move, n) VALUES (r.queue, CASE was WHEN 'leased' THEN 12 ELSE 11 END, 1);
      RETURN was;
    END IF;
  END LOOP;
  RETURN NULL;
END $$;

-- Makes a job ready now: one that backs off or is scheduled as it is, a dead one with all its attempts anew.
-- Returns the state that it was in, NULL when it is neither scheduled nor dead.
CREATE FUNCTION bugle.retry(p_id bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  r record;
BEGIN
  DELETE FROM bugle.due d WHERE d.id = p_id RETURNING d.* INTO r;
  IF FOUND THEN
    INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, max_attempts, kind, key, payload)
    VALUES (r.queue, r.lane, r.attempt, r.id, r.enqueued_at, r.max_attempts, r.kind, r.key, r.payload);
    INSERT INTO bugle.tally (queue, move, n) VALUES (r.queue, 13, 1);
    RETURN 'scheduled';
  END IF;
  DELETE FROM bugle.dead d WHERE d.id = p_id RETURNING d.* INTO r;
  IF FOUND THEN
    INSERT INTO bugle.job (queue, lane, attempt, id, enqueued_at, max_attempts, kind, key, payload)
    VALUES (r.queue, r.lane, 0, r.id, r.enqueued_at, r.max_attempts, r.kind, r.key, r.payload);
    INSERT INTO bugle.tally (queue, move, n) VALUES (r.queue, 14, 1);
    RETURN 'dead';
  END IF;
  RETURN NULL;
END $$;
