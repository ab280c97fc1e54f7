-- At most $5 jobs of namespace $1, newest first; $2 queue, $3 state, $4 kind, each NULL = any. Only of the newest $6 ids: what is asked for is
-- mostly there, and history has no index that would lead to its newest ids otherwise.
-- Of the jobs that are ready or leased the last of each lane are read, from the key's end: a backlog of millions is not sorted.
WITH asked AS MATERIALIZED (
  SELECT c.*, q.name, coalesce(newest.id - $6, 0) AS floor
  FROM bugle.queue q
  JOIN bugle.namespace n ON n.id = q.namespace
  JOIN bugle.newest_cursor c ON c.queue = q.id
  CROSS JOIN (   -- who may only read tables looks among all
    SELECT CASE WHEN has_sequence_privilege('bugle.job_id', 'USAGE, SELECT') THEN pg_sequence_last_value('bugle.job_id') END AS id
  ) newest
  WHERE n.name = $1 AND ($2::text IS NULL OR q.name = $2)
), found AS (
  SELECT j.id, j.queue, 'ready' AS state, j.lane, j.attempt, j.max_attempts, j.enqueued_at, j.due_at, NULL::timestamptz AS finished_at, j.kind, j.key
  FROM asked a
  CROSS JOIN generate_series(0, 3) AS l (lane)
  CROSS JOIN LATERAL (
    SELECT * FROM bugle.job k
    WHERE k.queue = a.queue AND k.lane = l.lane AND (k.x, k.id) > (a.px[l.lane + 1], a.pid[l.lane + 1]) AND ($4::text IS NULL OR k.kind = $4)
    ORDER BY k.x DESC, k.id DESC LIMIT $5
  ) j
  WHERE j.id > a.floor AND ($3::text IS NULL OR $3 = 'ready')
  UNION ALL
  -- The cursor has passed them: leased, unless it waits for their transaction.
  SELECT j.id, j.queue, j.state, j.lane, j.attempt, j.max_attempts, j.enqueued_at, j.due_at, NULL, j.kind, j.key
  FROM asked a
  CROSS JOIN generate_series(0, 3) AS l (lane)
  CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT k.*, CASE WHEN bugle.is_passed(ROW(a.queue, a.gen, a.px, a.pid, a.pend, a.claimed, a.paused, a.claim_limit)::bugle.cursor, k.lane, k.x, k.id) THEN 'leased' ELSE 'ready' END AS state
      FROM bugle.job k
      WHERE k.queue = a.queue AND k.lane = l.lane AND (k.x, k.id) <= (a.px[l.lane + 1], a.pid[l.lane + 1]) AND ($4::text IS NULL OR k.kind = $4)
    ) s
    WHERE $3::text IS NULL OR $3 = s.state
    ORDER BY s.x DESC, s.id DESC LIMIT $5
  ) j
  WHERE j.id > a.floor AND ($3::text IS NULL OR $3 IN ('ready', 'leased'))
  UNION ALL
  (SELECT d.id, d.queue, 'scheduled', d.lane, d.attempt, d.max_attempts, d.enqueued_at, d.due_at, NULL, d.kind, d.key
   FROM bugle.due d
   JOIN asked a ON a.queue = d.queue
   WHERE d.id > a.floor AND ($3::text IS NULL OR $3 = 'scheduled') AND ($4::text IS NULL OR d.kind = $4)
   ORDER BY d.id DESC LIMIT $5)
  UNION ALL
  (SELECT d.id, d.queue, 'dead', d.lane, d.attempt, d.max_attempts, d.enqueued_at, NULL, d.died_at, d.kind, d.key
   FROM bugle.dead d
   JOIN asked a ON a.queue = d.queue
   WHERE d.id > a.floor AND ($3::text IS NULL OR $3 = 'dead') AND ($4::text IS NULL OR d.kind = $4)
   ORDER BY d.id DESC LIMIT $5)
  UNION ALL
  (SELECT h.id, h.queue, h.state, h.lane, h.attempt, h.max_attempts, h.enqueued_at, NULL, h.finished_at, h.kind, h.key
   FROM bugle.history h
   JOIN asked a ON a.queue = h.queue
   WHERE h.id > (SELECT min(floor) FROM asked) AND ($3::text IS NULL OR h.state = $3) AND ($4::text IS NULL OR h.kind = $4)
   ORDER BY h.id DESC LIMIT $5)
)
SELECT f.id, a.name AS queue, f.kind, f.state, f.lane AS priority, f.attempt, f.max_attempts, f.enqueued_at, f.due_at, f.finished_at, f.key
FROM found f
JOIN asked a ON a.queue = f.queue
ORDER BY f.id DESC
LIMIT $5;
