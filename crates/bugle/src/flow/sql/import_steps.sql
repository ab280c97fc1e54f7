-- Steps of run $1.
INSERT INTO bugle.step (run, no, idx, state, epoch, parents_left, satisfied, items_left, items_ready, items_failed, attempt, worker, since, why, message, due_at)
SELECT $1, s.no, s.idx, s.state, s.epoch, s.parents_left, s.satisfied, s.items_left, s.items_ready, s.items_failed, s.attempt, s.worker, s.since, s.why, s.message, s.due_at
FROM jsonb_to_recordset($2::jsonb) AS s (
  no smallint, idx int, state text, epoch int, parents_left smallint, satisfied smallint, items_left int, items_ready int, items_failed int,
  attempt smallint, worker text, since timestamptz, why text, message text, due_at timestamptz);
