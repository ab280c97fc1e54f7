-- Definition $2 of namespace $1 in version $3, or in its newest when that is NULL. No row: there is none.
SELECT d.name, d.version, d.spec, d.defined_at
FROM bugle.definitions($1, $2) d
WHERE $3::int IS NULL OR d.version = $3
ORDER BY d.version DESC
LIMIT 1;
