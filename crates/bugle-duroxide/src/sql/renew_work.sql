-- Holds work $1 with token $2 for $3 from now on.
SELECT bugle.renew_work($1, $2::text::uuid, $3);
