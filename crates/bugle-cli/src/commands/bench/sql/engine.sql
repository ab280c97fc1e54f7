-- What this schema has of the wake engine.
SELECT coalesce(bool_or(p.proname = 'bell_class'), false) AS has_bell,
  coalesce(bool_or(p.proname = 'look'), false) AS has_look
FROM pg_proc p
WHERE p.pronamespace = 'bugle'::regnamespace;
