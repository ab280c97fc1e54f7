-- Moves what runs that are still there have in partitions that are to be dropped, $2 events at most. Returns how many. $1: the time; NULL: now.
SELECT bugle.keep_events(coalesce($1, now()), $2);
