-- Ends attempts that failed. An id not returned: lost or cancelled.
SELECT id, state
FROM bugle.fail_steps($1, $2, $3, $4, $5, $6, $7, $8, $9);
