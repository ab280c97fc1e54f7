-- The definitions of namespace $1, of name $2 unless that is NULL, by name, the newest version first; with how many of their runs have not ended
-- or have failed, each counted up to $3.
SELECT d.name, d.version, d.steps, d.identity, (extract(epoch FROM d.deadline) * 1000)::bigint AS deadline_ms, d.spec->>'description' AS description, d.defined_at,
  bugle.count_runs(d.id, '{queued,running}', $3) AS open, bugle.count_runs(d.id, '{failed}', $3) AS failed
FROM bugle.definitions($1, $2) d
ORDER BY d.name, d.version DESC;
