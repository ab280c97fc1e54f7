-- Where group $2 of queue $1 is in each partition; NULL: all groups.
SELECT group_name, part, partition, cur, lag, first_at, token, until, tries, leased FROM bugle.group_lag($1, $2);
