-- A signal of a file; false: it is there already.
SELECT bugle.import_signal($1, $2::jsonb);
