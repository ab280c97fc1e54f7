-- The log of run $1 as an export has it, in the order in which it happened.
SELECT jsonb_strip_nulls(jsonb_build_object('at', e.at, 'seq', e.seq, 'no', e.no, 'idx', e.idx, 'epoch', e.epoch, 'cause', e.cause, 'from_state', e.from_state,
  'to_state', e.to_state, 'attempt', e.attempt, 'actor', e.actor, 'why', e.why, 'message', e.message, 'due_at', e.due_at))::text
FROM bugle.flow_event e
WHERE e.run = $1
ORDER BY e.at, e.seq;
