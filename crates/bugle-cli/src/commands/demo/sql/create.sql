-- A table of the user's own, which has nothing to do with Bugle.
CREATE SCHEMA IF NOT EXISTS bugle_demo;
CREATE TABLE IF NOT EXISTS bugle_demo.orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  item text NOT NULL,
  ordered_at timestamptz NOT NULL DEFAULT now()
);
