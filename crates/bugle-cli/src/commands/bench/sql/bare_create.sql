-- Empty tables: Bugle's are made after this; the bare ones are as little as a queue in PostgreSQL can be.
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS bugle CASCADE;
DROP SCHEMA IF EXISTS bench CASCADE;
RESET client_min_messages;
CREATE SCHEMA bench;

CREATE TABLE bench.bare (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  payload jsonb NOT NULL
);

-- The same, with a NOTIFY in every writing transaction.
CREATE TABLE bench.bare_notify (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  payload jsonb NOT NULL
);
CREATE FUNCTION bench.notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('bench', '');
  RETURN NULL;
END $$;
CREATE TRIGGER notify AFTER INSERT ON bench.bare_notify
FOR EACH STATEMENT EXECUTE FUNCTION bench.notify();

-- The floor that rows are claimed from.
CREATE TABLE bench.floor (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  taken_at timestamptz,
  payload jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
