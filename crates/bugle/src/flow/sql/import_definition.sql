-- A definition of a file; false: it is there already.
SELECT bugle.import_definition($1, $2, $3, $4::jsonb, decode($5, 'hex'), $6);
