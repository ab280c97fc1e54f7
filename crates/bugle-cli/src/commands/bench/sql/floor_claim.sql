-- Takes at most $1 rows.
UPDATE bugle.floor
SET taken_at = now()
WHERE id = ANY (ARRAY(
  SELECT id FROM bugle.floor
  WHERE taken_at IS NULL
  ORDER BY id LIMIT $1
  FOR UPDATE SKIP LOCKED))
RETURNING id, payload;
