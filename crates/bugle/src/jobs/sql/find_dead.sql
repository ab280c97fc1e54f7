-- What the next $7 dead jobs of namespace $1 after id $6 are, counted by queue, kind and error: those that match and, apart, those that do not.
SELECT queue, kind, code, matches, count(*) AS jobs, min(died_at) AS oldest, max(died_at) AS newest, max(id) AS last
FROM bugle.match_dead($1, $2, $3, $4, $5, $6, $7)
GROUP BY queue, kind, code, matches;
