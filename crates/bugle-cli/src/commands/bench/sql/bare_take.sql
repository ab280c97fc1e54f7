-- Takes one row. No row: none is left.
DELETE FROM bench.bare_notify
WHERE id = (
  SELECT id FROM bench.bare_notify
  ORDER BY id LIMIT 1
  FOR UPDATE SKIP LOCKED)
RETURNING id;
