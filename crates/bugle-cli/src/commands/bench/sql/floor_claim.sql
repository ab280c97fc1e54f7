-- Takes at most $1 rows.
UPDATE bench.floor
SET taken_at = now()
WHERE id = ANY (ARRAY(
  SELECT id FROM bench.floor
  WHERE taken_at IS NULL
  ORDER BY id LIMIT $1
  FOR UPDATE SKIP LOCKED))
RETURNING id, payload;
