-- Gives work $1 with token $2 back, due after $3; with $4 the attempt does not count.
SELECT bugle.release_work($1, $2::text::uuid, $3, $4);
