-- The names of all namespaces.
SELECT name
FROM bugle.namespace
ORDER BY name;
