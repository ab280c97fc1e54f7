-- What this role may not do and a node must: on tables of schema $1, on its functions and sequence.
SELECT format('%s on %s.%s', need.what, $1, need.name)
FROM (
  SELECT c.relname::text AS name, w.what
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS w (what)
  WHERE n.nspname = $1
    AND c.relkind IN ('r', 'p')
    AND NOT has_table_privilege(c.oid, w.what)
    AND (w.what = 'SELECT'
      OR w.what IN ('INSERT', 'DELETE')
        AND c.relname IN ('job', 'due', 'lease', 'cursor', 'dead', 'job_key', 'tally', 'history', 'failure', 'ended', 'begun')
      OR w.what = 'INSERT' AND c.relname = 'queue'
      OR w.what = 'UPDATE' AND c.relname IN ('lease', 'job_key', 'due', 'job'))
  UNION ALL
  SELECT c.relname::text, 'USAGE'
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  -- CASE, because the planner may ask the second question first, which is an error for what is no sequence.
  WHERE n.nspname = $1 AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') ELSE false END
  UNION ALL
  SELECT p.proname::text, 'EXECUTE'
  FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE')
) need
ORDER BY 1;
