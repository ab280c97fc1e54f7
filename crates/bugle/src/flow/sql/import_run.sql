-- The row of a run of a file; false: there is a run with its number.
SELECT bugle.import_run($1, $2::jsonb, $3);
