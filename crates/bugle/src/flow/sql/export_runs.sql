-- At most $4 runs of namespace $1 in the order in which they were started, behind the one that was started at $2 (NULL: from the
-- first) with number $3.
SELECT r.id, r.created_at
FROM bugle.namespace n
CROSS JOIN LATERAL (
  SELECT * FROM bugle.run k
  WHERE k.namespace = n.id AND (k.created_at, k.id) > (coalesce($2, '-infinity'::timestamptz), $3)
  ORDER BY k.created_at, k.id LIMIT $4
) r
WHERE n.name = $1;
