-- One look for work: at most one for each of the owners $1, for $2, their sessions for $3; untagged work if $4, tagged work with one of $5.
SELECT id, asked, token::text AS token, attempt, item, instance, incarnation, execution, last_event, again_us, passed_over, is_dry, late_us
FROM bugle.claim_work($1, $2, $3, $4, $5);
