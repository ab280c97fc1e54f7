-- The value of key $2 of instance $1, as its last turn left it.
SELECT value
FROM (
  SELECT c.value, 1 AS rank FROM bugle.kv_change c WHERE c.instance = $1 AND c.key = $2
  UNION ALL
  SELECT k.value, 2 AS rank FROM bugle.kv k WHERE k.instance = $1 AND k.key = $2
) AS v
ORDER BY rank
LIMIT 1;
