-- Keeps the numbers up to $1 for the runs of a file. Returns the last that may have been given out before.
SELECT bugle.reserve_numbers($1);
