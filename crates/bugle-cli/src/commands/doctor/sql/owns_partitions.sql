-- May this role make and drop partitions? Only the tables' owner may.
SELECT pg_has_role(c.relowner, 'USAGE') AND has_schema_privilege(c.relnamespace, 'CREATE')
FROM pg_class c
WHERE c.oid = 'bugle.history'::regclass;
