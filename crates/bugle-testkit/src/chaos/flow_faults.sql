-- What is wrong with runs that all should have succeeded, a line each. $1: the server has crashed, and with it claims that are not flushed are
-- forgotten: somebody else may have been given the same attempt.
SELECT format('run %s, step %s: %s', f.run, f.no, f.fault) FROM bugle.audit_flow() f
UNION ALL
SELECT DISTINCT format('illegal move of a %s: %s to %s by %s', CASE WHEN e.no = 0 THEN 'run' ELSE 'step' END, e.from_state, e.to_state, e.cause)
FROM bugle.flow_event e
WHERE e.from_state IS NOT NULL AND NOT EXISTS (
  SELECT FROM (
    SELECT false AS of_run, m.* FROM bugle.step_move m
    UNION ALL SELECT true, m.* FROM bugle.run_move m
  ) legal
  WHERE legal.of_run = (e.no = 0) AND legal.from_state = e.from_state AND legal.to_state = e.to_state AND legal.cause = e.cause)
UNION ALL
SELECT format('run %s is %s, not succeeded', r.id, r.state) FROM bugle.run r WHERE r.state <> 'succeeded'
UNION ALL
SELECT format('step %s of run %s ended %s times', s.no, s.run, count(e.run))
FROM (
  SELECT k.run, k.no FROM bugle.step k
  UNION ALL SELECT r.id, 0 FROM bugle.run r
) s
LEFT JOIN bugle.flow_event e ON e.run = s.run AND e.no = s.no AND e.to_state IN ('succeeded', 'failed', 'skipped', 'cancelled')
GROUP BY s.run, s.no HAVING count(e.run) <> 1
UNION ALL
-- An attempt that has lost its lease may still be at work, which nobody can prevent; the attempt that ended the step, or one after it, may not.
SELECT format('attempt %s of step %s of run %s began after attempt %s had ended it', f.attempt, f.step, f.run, e.attempt)
FROM bugle.chaos_effect f
JOIN bugle.run r ON r.id = f.run
JOIN bugle.definition_step d ON d.definition = r.definition AND d.name = f.step
JOIN bugle.flow_event e ON e.run = f.run AND e.no = d.no AND e.to_state = 'succeeded'
WHERE f.at > e.at AND f.attempt >= e.attempt + CASE WHEN $1 THEN 1 ELSE 0 END
UNION ALL
SELECT format('attempt %s of step %s of run %s has ended it, and no handler was there', e.attempt, d.name, e.run)
FROM bugle.flow_event e
JOIN bugle.run r ON r.id = e.run
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = e.no AND d.kind = 'task'
WHERE e.to_state = 'succeeded' AND NOT EXISTS (SELECT FROM bugle.chaos_effect f WHERE f.run = e.run AND f.step = d.name AND f.attempt = e.attempt)
UNION ALL
SELECT format('step %s of run %s was ended by %s, and it was %s who had it', e.no, e.run, coalesce(e.actor, 'nobody'), holder.actor)
FROM bugle.flow_event e
CROSS JOIN LATERAL (
  SELECT c.actor FROM bugle.flow_event c
  WHERE c.run = e.run AND c.no = e.no AND c.epoch = e.epoch AND c.attempt = e.attempt AND c.cause = 'claim' ORDER BY c.at DESC LIMIT 1
) holder
WHERE e.cause IN ('ack', 'fail') AND holder.actor IS DISTINCT FROM e.actor
UNION ALL
SELECT format('run %s brought about %s, not %s', v.run, v.value, 2 * (i.value::bigint + 2) + 1)
FROM bugle.flow_value v
JOIN bugle.run r ON r.id = v.run
JOIN bugle.definition_step d ON d.definition = r.definition AND d.no = v.no AND d.name = 'd'
JOIN bugle.flow_value i ON i.run = v.run AND i.no = 0
WHERE v.value::bigint <> 2 * (i.value::bigint + 2) + 1
UNION ALL
SELECT format('job %s is left behind: %s %s', j.id, j.kind, j.payload)
FROM (
  SELECT k.queue, k.id, k.kind, k.payload FROM bugle.job k
  UNION ALL SELECT k.queue, k.id, k.kind, k.payload FROM bugle.due k
) j
JOIN bugle.queue q ON q.id = j.queue AND q.holds = 'steps'
UNION ALL
SELECT format('%s runs have the key %s', count(*), r.key) FROM bugle.run r GROUP BY r.key HAVING count(*) > 1
