-- Events of run $1.
INSERT INTO bugle.flow_event (at, run, no, idx, epoch, cause, from_state, to_state, attempt, actor, why, message, due_at, seq)
SELECT e.at, $1, e.no, e.idx, e.epoch, e.cause, e.from_state, e.to_state, e.attempt, e.actor, e.why, e.message, e.due_at, e.seq
FROM jsonb_to_recordset($2::jsonb) AS e (
  at timestamptz, no smallint, idx int, epoch int, cause text, from_state text, to_state text, attempt smallint, actor text, why text, message text, due_at timestamptz, seq bigint);
