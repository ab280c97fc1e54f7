-- Begins the next generation if it is time, by $1 or the database's clock. Its number; NULL: this one goes on.
SELECT bugle.begin_generation(coalesce($1, now()));
