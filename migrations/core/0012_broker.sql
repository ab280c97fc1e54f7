-- The tables of messages. A queue holds partitions, a partition an insert-only log; a consumer group has a cursor and at most one lease per
-- partition, both in one insert-only ledger. Nothing in the path of a message is ever UPDATEd or DELETEd: a held snapshot keeps dead rows
-- alive, and here every probe begins at the newest end of an index.

-- Advisory locks: one for each partition, and a few for the whole broker (1: partitions are made; 2: the tail is numbered; 3: generations).
-- Whoever takes several takes those of the broker first, by their numbers, then those of partitions, ascending; then rows of group_cursor,
-- by group and partition. So nobody waits in a circle.
CREATE FUNCTION bugle.partition_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.partition'::bytea), 'hex'), 8))::bit(32)::int;

CREATE FUNCTION bugle.broker_class() RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ('x' || left(encode(sha256('bugle.broker'::bytea), 'hex'), 8))::bit(32)::int;

-- What a queue of messages was told, beside its row in queue. NULL: it was not told, and no message is ever deleted because of that.
CREATE TABLE bugle.message_queue (
  queue int PRIMARY KEY REFERENCES bugle.queue ON DELETE CASCADE,
  tag_namespace text COLLATE "C",
  tag_task text COLLATE "C",
  lease_seconds int CHECK (lease_seconds BETWEEN 0 AND 86400),
  retry_limit int CHECK (retry_limit BETWEEN 0 AND 1000000),
  retry_delay_ms int CHECK (retry_delay_ms >= 0),
  delay_seconds int CHECK (delay_seconds >= 0),                        -- delayedProcessing: a message is invisible for so long
  window_seconds int CHECK (window_seconds >= 0),                      -- windowBuffer: so is a partition after its newest message
  messages_max int CHECK (messages_max >= 0),                          -- maxSize
  ttl_seconds int CHECK (ttl_seconds >= 0),
  priority int,
  retention_enabled boolean,
  retention_seconds int CHECK (retention_seconds >= 0),
  completed_retention_seconds int CHECK (completed_retention_seconds >= 0),
  wait_seconds_max int CHECK (wait_seconds_max >= 0),                  -- maxWaitTimeSeconds: eviction
  encryption_enabled boolean,
  dead_letter_queue boolean,                                           -- kept for whoever asks: dead letters are always kept
  dead_letter_after_retries boolean,
  floor bigint NOT NULL DEFAULT 0                                      -- messages up to this seq are invisible (retention, clear)
);
CREATE INDEX message_queue_tags ON bugle.message_queue (tag_namespace, tag_task);

-- How many messages a queue had that was told a most number, and how far the log had come then (0013). Hints: whoever finds none counts.
CREATE TABLE bugle.message_count (
  queue int NOT NULL,
  seq bigint NOT NULL,
  depth bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX message_count_seq ON bugle.message_count (queue, seq);

-- An ordered lane of a queue, made on first use.
CREATE TABLE bugle.partition (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue int NOT NULL,
  name text COLLATE "C" NOT NULL,
  base_n bigint NOT NULL DEFAULT 0,                                    -- its last n when all generations that it has rows in are dropped
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (queue, name),
  CONSTRAINT partition_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 255),
  CONSTRAINT partition_name_printable CHECK (name !~ '[[:cntrl:]]')
);

-- A seek gives the group another id: its cursors of before are then nobody's, and its leases are lost, whatever the number of partitions.
CREATE TABLE bugle.consumer_group (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue int NOT NULL,
  name text COLLATE "C" NOT NULL,
  start bigint NOT NULL,                                               -- its messages are those behind this seq
  mode text NOT NULL CHECK (mode IN ('all', 'new', 'from')),           -- how it was subscribed, for people
  start_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (queue, name),
  CONSTRAINT group_name_bytes CHECK (octet_length(name) BETWEEN 1 AND 255),
  CONSTRAINT group_name_printable CHECK (name !~ '[[:cntrl:]]')
);

-- The high 32 bits of a seq are its generation. One sequence for all partitions, so that a group's start and a queue's floor are one number.
-- CACHE 1, or a partition's numbers would not rise in the order of their commits.
CREATE SEQUENCE bugle.message_seq CACHE 1;

-- When each generation began: from a time to a seq.
CREATE TABLE bugle.generation (
  no int PRIMARY KEY,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The log. seq: taken under the partition's lock, so it rises in commit order; n: dense in its partition, for exact lag and as a proof that
-- nothing is missing. No CHECK and no trigger: whoever writes here sees to it.
CREATE TABLE bugle.message (
  part int NOT NULL,
  grp int,                                                             -- for this group alone: a dead letter that was redriven
  seq bigint NOT NULL,
  n bigint NOT NULL,
  at timestamptz NOT NULL,
  id uuid NOT NULL,
  trace uuid,
  key text COLLATE "C",                                                -- the caller's; on the wire transactionId
  sub text,                                                            -- who pushed it, by a proof of the server's
  payload text NOT NULL,                                               -- JSON, checked by the node and never read here
  PRIMARY KEY (part, seq)
) PARTITION BY RANGE (seq);

-- Same key, same message, in one partition for as long as the window lasts. Tested and written under the partition's lock.
CREATE TABLE bugle.message_key (
  part int NOT NULL,
  key text COLLATE "C" NOT NULL,
  gen int NOT NULL,
  id uuid NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (part, key, gen)
) PARTITION BY LIST (gen);

-- Cursor and lease of a group in a partition: the newest version counts, and whoever writes version + 1 has read it. The key is the mutual
-- exclusion and the fence. No row: the cursor is at the group's start.
CREATE TABLE bugle.group_cursor (
  part int NOT NULL,
  grp int NOT NULL,
  ver bigint NOT NULL,
  cur bigint NOT NULL,                                                 -- everything up to here is done
  lo bigint,                                                           -- the claim of the token: the messages (lo, hi]
  hi bigint,
  until timestamptz,                                                   -- not claimable before: the lease's end, or a retry's delay
  token uuid,                                                          -- whose claim it is or was
  held boolean NOT NULL DEFAULT false,                                 -- the token still may settle
  auto boolean NOT NULL DEFAULT false,                                 -- acked by the claim itself
  tries int NOT NULL DEFAULT 0,                                        -- claims in a row that came to nothing
  PRIMARY KEY (part, grp, ver)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX group_cursor_token ON bugle.group_cursor (token) WHERE held;

-- Which partitions of a queue became claimable: one row per statement. A look reads what the look before could not see.
CREATE TABLE bugle.news (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  queue int NOT NULL,
  grp int,                                                             -- NULL: for every group
  parts int[]                                                          -- NULL: look at all of them
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX news_xid ON bugle.news (queue, xid);

-- What users' own transactions pushed: numbered after their commits, exactly once, by whoever looks (0016). Until then it is in nobody's way.
CREATE TABLE bugle.tail (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  place bigint GENERATED ALWAYS AS IDENTITY,
  queue int NOT NULL,
  partition text NOT NULL,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  key text,
  payload text NOT NULL,
  PRIMARY KEY (xid, place)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Everything that this snapshot sees of the tail has its number. The newest row counts.
CREATE TABLE bugle.tail_mark (
  no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  seen pg_snapshot NOT NULL
);
INSERT INTO bugle.tail_mark (seen) VALUES (pg_current_snapshot());

-- Messages that are dead for a group, with all that they were: the log's generations are dropped.
CREATE TABLE bugle.dead_message (
  part int NOT NULL,
  group_name text COLLATE "C" NOT NULL,                                -- not its id: a seek gives the group another one
  seq bigint NOT NULL,
  queue int NOT NULL,
  died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  tries int NOT NULL,
  error text,
  at timestamptz NOT NULL,
  id uuid NOT NULL,
  trace uuid,
  key text COLLATE "C",
  sub text,
  payload text NOT NULL,
  PRIMARY KEY (part, group_name, seq)
);
CREATE INDEX dead_message_queue ON bugle.dead_message (queue, died_at);

ALTER TABLE bugle.meta
  ADD COLUMN message_key_window interval NOT NULL DEFAULT '24 hours',  -- at least so long; it ends with a generation
  ADD COLUMN news_from xid8 NOT NULL DEFAULT '0',                      -- rows of news below this one may be gone
  ADD COLUMN news_mark xid8 NOT NULL DEFAULT '0',                      -- rows below this one go next
  ADD COLUMN news_mark_at timestamptz NOT NULL DEFAULT now();

-- Makes the tables of a generation: beside their parents and then attached, which locks nobody out (PARTITION OF would).
CREATE FUNCTION bugle.make_generation(p_no int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  lo bigint := p_no::bigint << 32;
  hi bigint := (p_no + 1)::bigint << 32;
BEGIN
  EXECUTE format('CREATE TABLE bugle.message_%1$s (LIKE bugle.message, PRIMARY KEY (part, seq), CHECK (seq >= %2$s AND seq < %3$s))', p_no, lo, hi);
  EXECUTE format('ALTER TABLE bugle.message ATTACH PARTITION bugle.message_%1$s FOR VALUES FROM (%2$s) TO (%3$s)', p_no, lo, hi);
  EXECUTE format('CREATE TABLE bugle.message_key_%1$s (LIKE bugle.message_key, PRIMARY KEY (part, key, gen), CHECK (gen = %1$s))', p_no);
  EXECUTE format('ALTER TABLE bugle.message_key ATTACH PARTITION bugle.message_key_%1$s FOR VALUES IN (%1$s)', p_no);
END $$;

SELECT bugle.make_generation(no) FROM generate_series(0, 2) AS no;
INSERT INTO bugle.generation (no) VALUES (0);
