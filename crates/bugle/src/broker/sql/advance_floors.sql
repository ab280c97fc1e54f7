-- Moves the floors of queues that were told to forget, by $1 or the database's clock. How many moved.
SELECT bugle.advance_floors(coalesce($1, now()));
