-- Holds the turn of instance $1 with token $2 for $3 from now on.
SELECT bugle.renew_turn($1, $2::text::uuid, $3);
