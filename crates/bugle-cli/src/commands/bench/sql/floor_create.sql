-- The floor: as little as a queue in PostgreSQL can be.
DROP TABLE IF EXISTS bugle.floor;
CREATE TABLE bugle.floor (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  taken_at timestamptz,
  payload jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CHECKPOINT;
