-- Who holds jobs of queue number $1: of the 10,000 leases that end first.
SELECT l.worker, count(*) AS leases, sum(j.n)::bigint AS jobs, min(l.claimed_at) AS since, min(l.until) AS until,
  bool_or(l.until > clock_timestamp()) AS alive
FROM (
  SELECT * FROM bugle.lease e
  WHERE e.queue = $1
  ORDER BY e.until LIMIT 10000
) l
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM bugle.jobs_of(ROW(l.*)::bugle.lease)
) j
GROUP BY l.worker
ORDER BY l.worker;
