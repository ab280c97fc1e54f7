-- Does the server answer? Behind a pooler a connection alone does not tell.
SELECT 1;
