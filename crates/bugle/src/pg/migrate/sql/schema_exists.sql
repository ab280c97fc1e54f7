-- Is there a schema $1?
SELECT to_regnamespace($1) IS NOT NULL;
