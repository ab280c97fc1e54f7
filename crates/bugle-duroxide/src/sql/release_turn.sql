-- Gives the turn of instance $1 with token $2 back, its messages due after $3; with $4 the attempt does not count.
SELECT bugle.release_turn($1, $2::text::uuid, $3, $4);
