-- Is there a schema of Bugle's in this database?
SELECT to_regnamespace('bugle') IS NOT NULL;
