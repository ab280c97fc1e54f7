-- The tables of jobs. Nothing in the path of a job is ever UPDATEd but a lease's end: a held snapshot keeps dead rows alive,
-- and every scan here starts behind them (a cursor) or at a key.

-- Stays with a job for life. Never a cursor: commit order is not number order.
CREATE SEQUENCE bugle.job_id CACHE 32;

-- Jobs that are ready or leased. INSERT and DELETE only. A row is handed out once: every redelivery is a new row under the same id.
-- No foreign key, no trigger and no CHECK may be put on this table: only the DELETE of a row decides who owns it, and PostgreSQL reads a
-- CHECK anew for every statement, a tenth of what an enqueue costs. Lane is 0 to 3; whoever writes here sees to it.
CREATE TABLE bugle.job (
  queue int NOT NULL,
  lane smallint NOT NULL,
  attempt smallint NOT NULL DEFAULT 0,                                 -- attempts used up
  x bigint NOT NULL DEFAULT txid_current(),                            -- top-level transaction that made the row claimable: nothing else
  id bigint NOT NULL DEFAULT nextval('bugle.job_id'),
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  due_at timestamptz NOT NULL DEFAULT now(),
  max_attempts smallint NOT NULL,
  kind text NOT NULL,
  key text,
  extra jsonb,                                                         -- what few jobs have: a retry rule of their own; that they were lost
  payload jsonb NOT NULL,
  PRIMARY KEY (queue, lane, x, id)                                     -- an index on id would cost a fifth of a bulk enqueue
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- A transaction that was open when a lane's cursor passed it. Of its rows those up to id have been handed out.
CREATE TYPE bugle.pending AS (lane smallint, x bigint, id bigint);

-- How far a queue has been handed out: of lane l every row up to (px[l + 1], pid[l + 1]), except those that pend waits for. Insert-only,
-- read from its newest end. The key refuses a second claim from one state.
CREATE TABLE bugle.cursor (
  queue int NOT NULL,
  gen bigint NOT NULL,
  px bigint[] NOT NULL DEFAULT '{0,0,0,0}',
  pid bigint[] NOT NULL DEFAULT '{0,0,0,0}',
  pend bugle.pending[] NOT NULL DEFAULT '{}',
  claimed bigint NOT NULL DEFAULT 0,                                   -- running total
  paused boolean NOT NULL DEFAULT false,                               -- nothing is handed out; here, because every look reads this row
  claim_limit int,                                                     -- as the queue has it, here for the same reason
  PRIMARY KEY (queue, gen)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- The cursors as they are now.
CREATE VIEW bugle.newest_cursor AS
SELECT newest.*
FROM bugle.queue q
CROSS JOIN LATERAL (
  SELECT * FROM bugle.cursor c
  WHERE c.queue = q.id
  ORDER BY c.gen DESC LIMIT 1
) newest;

-- One row per claim: the rows of the key ranges (lo, hi], one for each entry of lane, whose x is not in skip.
CREATE TABLE bugle.lease (
  token bigint PRIMARY KEY,                                            -- random, chosen by the claimer before it asks
  queue int NOT NULL,
  lane smallint[] NOT NULL,
  lo_x bigint[] NOT NULL,
  lo_id bigint[] NOT NULL,
  hi_x bigint[] NOT NULL,
  hi_id bigint[] NOT NULL,
  skip bigint[] NOT NULL,
  n int NOT NULL,
  worker text NOT NULL,
  claimed_at timestamptz NOT NULL,
  dur interval NOT NULL,
  until timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX lease_until ON bugle.lease (queue, until);

-- Jobs that were lost with a worker before and that a worker has begun at their last attempt: a worker begins one at a time, and says so
-- here first. Should it die, the others that it holds lose no attempt (bugle.sweep). Few rows: a worker that is here is one that says so.
CREATE TABLE bugle.begun (
  worker text NOT NULL,
  token bigint NOT NULL,
  id bigint NOT NULL,
  begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (worker, token, id)
);

-- Scheduled jobs and those that back off. Moved into job when due.
CREATE TABLE bugle.due (
  queue int NOT NULL,
  lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 3),
  attempt smallint NOT NULL,
  due_at timestamptz NOT NULL,
  id bigint NOT NULL DEFAULT nextval('bugle.job_id'),
  enqueued_at timestamptz NOT NULL DEFAULT now(),
  max_attempts smallint NOT NULL CHECK (max_attempts > 0),
  kind text NOT NULL,
  key text,
  extra jsonb,
  payload jsonb NOT NULL,
  PRIMARY KEY (queue, due_at, id)
);
CREATE INDEX due_id ON bugle.due (id);

-- Same key, same job, for as long as the window lasts: a finished job leaves the tables above, its key stays here.
CREATE TABLE bugle.job_key (
  queue int NOT NULL,
  key text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (queue, key)
);
CREATE INDEX job_key_until ON bugle.job_key (until);

-- Out of attempts. Kept until a person tries them again, so not in history, which is dropped by age; nor is the last error left to
-- failure, which is dropped as well: worker, code and message are of the attempt that was the last.
CREATE TABLE bugle.dead (
  id bigint PRIMARY KEY,
  queue int NOT NULL,
  lane smallint NOT NULL,
  attempt smallint NOT NULL,
  max_attempts smallint NOT NULL,
  enqueued_at timestamptz NOT NULL,
  died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind text NOT NULL,
  key text,
  extra jsonb,
  payload jsonb NOT NULL,
  worker text NOT NULL,
  code text NOT NULL,
  message text NOT NULL
);
CREATE INDEX dead_queue ON bugle.dead (queue, died_at);

-- Ended jobs, dropped by the day. The default partition catches what no day's partition was made for.
CREATE TABLE bugle.history (
  finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  queue int NOT NULL,
  lane smallint NOT NULL,
  attempt smallint NOT NULL,                                           -- the attempt that ended it; 0 = cancelled before the first
  id bigint NOT NULL,
  enqueued_at timestamptz NOT NULL,
  max_attempts smallint NOT NULL,
  state text NOT NULL CHECK (state IN ('done', 'cancelled')),
  kind text NOT NULL,
  key text,
  extra jsonb,
  payload jsonb NOT NULL,
  worker text,                                                         -- who ended it; NULL: nobody had it
  result jsonb                                                         -- what the handler returned
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_id ON bugle.history (id);
CREATE TABLE bugle.history_default PARTITION OF bugle.history DEFAULT;

-- Attempts that did not end well, each with its error. Dropped by the day as well.
CREATE TABLE bugle.failure (
  failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  queue int NOT NULL,
  id bigint NOT NULL,
  attempt smallint NOT NULL,
  worker text NOT NULL,
  code text NOT NULL,
  message text NOT NULL
) PARTITION BY RANGE (failed_at);
CREATE INDEX failure_id ON bugle.failure (id);
CREATE TABLE bugle.failure_default PARTITION OF bugle.failure DEFAULT;

-- The moves of the state machine (docs/state-machines.md). A claim (ready to leased) is counted by the cursor, not here.
CREATE TABLE bugle.move (
  id smallint PRIMARY KEY,
  cause text NOT NULL,
  from_state text CHECK (from_state IN ('scheduled', 'ready', 'leased', 'dead')),
  to_state text NOT NULL CHECK (to_state IN ('scheduled', 'ready', 'leased', 'done', 'dead', 'cancelled')),
  UNIQUE (cause, from_state, to_state)
);
INSERT INTO bugle.move (id, cause, from_state, to_state) VALUES
  (1, 'enqueue', NULL, 'ready'),
  (2, 'enqueue', NULL, 'scheduled'),
  (3, 'due', 'scheduled', 'ready'),
  (4, 'ack', 'leased', 'done'),
  (5, 'fail', 'leased', 'scheduled'),
  (6, 'fail', 'leased', 'dead'),
  (7, 'release', 'leased', 'ready'),
  (8, 'expire', 'leased', 'ready'),
  (9, 'expire', 'leased', 'dead'),
  (10, 'cancel', 'scheduled', 'cancelled'),
  (11, 'cancel', 'ready', 'cancelled'),
  (12, 'cancel', 'leased', 'cancelled'),
  (13, 'retry', 'scheduled', 'ready'),
  (14, 'retry', 'dead', 'ready'),
  (15, 'snooze', 'leased', 'scheduled');

-- How many jobs made which move: one row per statement, folded by the sweep. Depth is read from here, never counted in job.
CREATE TABLE bugle.tally (
  queue int NOT NULL,
  move smallint NOT NULL,
  n bigint NOT NULL
);

CREATE VIEW bugle.queue_count AS
WITH moved AS (
  SELECT t.queue, m.from_state, m.to_state, sum(t.n) AS n
  FROM bugle.tally t
  JOIN bugle.move m ON m.id = t.move
  GROUP BY 1, 2, 3
), entered AS (
  SELECT queue, to_state AS state, n FROM moved
  UNION ALL
  SELECT queue, from_state, -n FROM moved WHERE from_state IS NOT NULL
), changed AS (
  SELECT queue, state, n FROM entered
  UNION ALL
  SELECT queue, 'leased', claimed FROM bugle.newest_cursor
  UNION ALL
  SELECT queue, 'ready', -claimed FROM bugle.newest_cursor
)
SELECT q.id AS queue,
  coalesce(sum(n) FILTER (WHERE state = 'scheduled'), 0)::bigint AS scheduled,
  coalesce(sum(n) FILTER (WHERE state = 'ready'), 0)::bigint AS ready,
  coalesce(sum(n) FILTER (WHERE state = 'leased'), 0)::bigint AS leased,
  coalesce(sum(n) FILTER (WHERE state = 'done'), 0)::bigint AS done,
  coalesce(sum(n) FILTER (WHERE state = 'dead'), 0)::bigint AS dead,
  coalesce(sum(n) FILTER (WHERE state = 'cancelled'), 0)::bigint AS cancelled
FROM bugle.queue q
LEFT JOIN changed ON changed.queue = q.id
GROUP BY q.id;
