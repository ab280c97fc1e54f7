-- Removes runs of workflows that ended long ago, $2 at most. Returns how many rows that were. $1: the time; NULL: now.
SELECT bugle.remove_runs(coalesce($1, now()), $2);
