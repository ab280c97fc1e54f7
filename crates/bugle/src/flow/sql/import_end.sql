-- The end of a run of a file: what has become of it, and what makes it go on.
SELECT bugle.import_end($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);
