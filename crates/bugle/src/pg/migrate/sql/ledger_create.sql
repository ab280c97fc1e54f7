-- The ledger of migrations: one row per applied file.
CREATE TABLE IF NOT EXISTS bugle.migration (
  set text NOT NULL,
  version int NOT NULL,
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (set, version)
);
