-- The indexes of schema $1, and whether each can be used.
SELECT c.relname::text AS name, i.indrelid::regclass::text AS on_table, i.indisvalid AND i.indisready AS usable
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1
ORDER BY c.relname;
