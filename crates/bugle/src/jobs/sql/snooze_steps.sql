-- Puts steps off by $7 each, the attempt not counted. An id not returned: lost or cancelled.
SELECT id
FROM bugle.snooze_steps($1, $2, $3, $4, $5, $6, $7) AS id;
