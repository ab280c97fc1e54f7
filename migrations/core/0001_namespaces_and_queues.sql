-- Names, and what the whole installation knows about itself.
-- Every file of this folder is written for the schema `bugle`; another schema's name is put in its place when it is applied.

CREATE TABLE bugle.meta (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- The cluster whose transaction numbers the job rows carry (see 0002, rebase). A restore into another cluster shows here.
  system_identifier bigint NOT NULL,
  history_days int NOT NULL DEFAULT 7 CHECK (history_days BETWEEN 1 AND 3650)
);
INSERT INTO bugle.meta (system_identifier)
SELECT system_identifier FROM pg_control_system();

CREATE TABLE bugle.namespace (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT namespace_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 255),
  CONSTRAINT namespace_name_printable CHECK (name !~ '[[:cntrl:]]')
);
INSERT INTO bugle.namespace (name) VALUES ('default');

-- How many jobs of certain queues may be claimed at a time, on all nodes together. Nothing counts them: what is held is what leases hold, so that
-- whatever a dead worker held is free when its lease ends.
CREATE TABLE bugle.claim_limit (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  most int NOT NULL CHECK (most BETWEEN 1 AND 100000)
);

CREATE TABLE bugle.queue (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace int NOT NULL REFERENCES bugle.namespace,
  name text COLLATE "C" NOT NULL,
  holds text NOT NULL DEFAULT 'jobs' CHECK (holds IN ('jobs', 'messages')),   -- decided by its first use, for good
  history boolean NOT NULL DEFAULT true,
  claim_limit int REFERENCES bugle.claim_limit,                        -- set for queues of steps alone (0032): ack and ack_claims do not ring for it
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (namespace, name),
  CONSTRAINT queue_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 255),
  CONSTRAINT queue_name_printable CHECK (name !~ '[[:cntrl:]]')
);

CREATE INDEX queue_claim_limit ON bugle.queue (claim_limit) WHERE claim_limit IS NOT NULL;

-- Advisory locks have two numbers. The first, the class, derives from the schema, so that several Bugles in one database do not meet.
CREATE FUNCTION bugle.claim_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.claim'::bytea), 'hex'), 8))::bit(32)::int;

CREATE FUNCTION bugle.limit_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.limit'::bytea), 'hex'), 8))::bit(32)::int;

CREATE FUNCTION bugle.sweep_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.sweep'::bytea), 'hex'), 8))::bit(32)::int;

-- Makes a namespace; false when it is there already. Unlike a queue it is never made by using it: a misspelt one would hide its jobs.
CREATE FUNCTION bugle.declare_namespace(p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.namespace (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
  IF FOUND THEN
    PERFORM bugle.ring_control();
    RETURN true;
  END IF;
  RETURN false;
END $$;

-- The number of a queue; NULL when there is none of that name.
CREATE FUNCTION bugle.find_queue(p_namespace text, p_queue text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
  number int;
BEGIN
  SELECT q.id INTO number
  FROM bugle.queue q
  JOIN bugle.namespace n ON n.id = q.namespace
  WHERE n.name = p_namespace AND q.name = p_queue;
  RETURN number;
END $$;
