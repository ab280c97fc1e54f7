-- The tables of flow: definitions, their runs, and the steps of those.
-- A step that is ready is carried by a job in a queue that holds steps: claimed, leased, put off and found again as any job. What it means for
-- the other steps stands here, and is written in the transaction that ends the job (0025).

ALTER TABLE bugle.queue DROP CONSTRAINT queue_holds_check;
ALTER TABLE bugle.queue ADD CONSTRAINT queue_holds_check CHECK (holds IN ('jobs', 'messages', 'steps'));

-- A namespace that has workflows. Made by its first definition.
CREATE TABLE bugle.flow (
  namespace int PRIMARY KEY REFERENCES bugle.namespace,
  engine int NOT NULL REFERENCES bugle.queue,                          -- of what Bugle does itself: sleeps that end, deadlines, signals
  claim_limit int REFERENCES bugle.claim_limit                         -- of all its queues but the engine's
);

-- A workflow as it was defined. Immutable: a change is another version, and a run keeps the one that it was started with.
CREATE TABLE bugle.definition (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace int NOT NULL REFERENCES bugle.flow,
  name text COLLATE "C" NOT NULL,
  version int NOT NULL CHECK (version > 0),
  identity text NOT NULL CHECK (identity IN ('strict', 'key', 'always_new')),
  deadline interval,                                                   -- of a run, from its start
  steps int NOT NULL,
  spec jsonb NOT NULL,                                                 -- the canonical form; everything else is read from it once
  hash bytea NOT NULL,
  defined_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (namespace, name, version)
);

-- What settlements read of the steps of a definition. no: its number there, parents before children.
CREATE TABLE bugle.definition_step (
  definition int NOT NULL REFERENCES bugle.definition,
  no smallint NOT NULL,
  name text COLLATE "C" NOT NULL,
  kind text NOT NULL CHECK (kind IN ('task', 'map', 'decision', 'sleep', 'signal')),
  handler text NOT NULL,
  queue int NOT NULL,                                                  -- the worker set; of a sleep or a signal the engine's
  is_routed boolean NOT NULL,                                          -- the rules may choose another (0032): the definition names none
  lane smallint NOT NULL,
  attempts smallint NOT NULL,
  extra jsonb,                                                         -- the retry rule, as a job has it
  parents smallint NOT NULL,
  any_parent boolean NOT NULL,                                         -- one satisfied edge is enough
  goes_on boolean NOT NULL,                                            -- a failure counts as a success
  seen_to boolean NOT NULL,                                            -- another step runs when it fails: the run does not fail for it
  timeout interval,
  deadline interval,
  sleep interval,
  signal_key text,
  signal_timeout interval,
  over_no smallint,                                                    -- of a map: the step whose output has the list; NULL: the run's input
  over_at text[],
  at_once int,
  events jsonb,
  PRIMARY KEY (definition, no)
);

CREATE TABLE bugle.definition_edge (
  definition int NOT NULL,
  from_no smallint NOT NULL,
  to_no smallint NOT NULL,
  on_state text NOT NULL CHECK (on_state IN ('success', 'failure', 'always')),
  PRIMARY KEY (definition, from_no, to_no),
  FOREIGN KEY (definition, from_no) REFERENCES bugle.definition_step,
  FOREIGN KEY (definition, to_no) REFERENCES bugle.definition_step
);

-- One execution. Numbered as jobs are: who waits for an end waits for a number (0009).
CREATE TABLE bugle.run (
  id bigint PRIMARY KEY DEFAULT nextval('bugle.job_id'),
  namespace int NOT NULL,
  definition int NOT NULL REFERENCES bugle.definition,
  state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  steps_left int NOT NULL,                                             -- that have not ended
  failed int NOT NULL DEFAULT 0,                                       -- that failed, and nothing in the definition sees to it
  paused boolean NOT NULL DEFAULT false,
  lane smallint,                                                       -- of all its steps; NULL: each its own
  key text,
  tags jsonb,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ends_by timestamptz,
  started_at timestamptz,
  ended_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX run_recent ON bugle.run (namespace, id);
CREATE INDEX run_open ON bugle.run (namespace, id) WHERE ended_at IS NULL;
CREATE INDEX run_failed ON bugle.run (namespace, id) WHERE state = 'failed';

-- What goes in and comes out: the input of a run (no 0), the outputs of its steps. Written once, and never copied.
CREATE TABLE bugle.flow_value (
  run bigint NOT NULL,
  no smallint NOT NULL,
  idx int NOT NULL,
  epoch int NOT NULL,                                                  -- a step that was restarted has another output
  value jsonb NOT NULL,
  PRIMARY KEY (run, no, idx, epoch)
);

-- One step of a run; of a map one row for the whole (idx 0), and one for each element from 1 on.
-- Found by its key alone: every change stays on its page.
CREATE TABLE bugle.step (
  run bigint NOT NULL,
  no smallint NOT NULL,
  idx int NOT NULL DEFAULT 0,
  state text NOT NULL CHECK (state IN ('pending', 'ready', 'running', 'waiting', 'succeeded', 'failed', 'skipped', 'cancelled')),
  epoch int NOT NULL DEFAULT 1,                                        -- raised by whatever makes its job a stranger's
  parents_left smallint NOT NULL,                                      -- that have not ended
  satisfied smallint NOT NULL DEFAULT 0,                               -- edges, of those that have
  items_left int NOT NULL DEFAULT 0,                                   -- of a map: elements that have not ended,
  items_ready int NOT NULL DEFAULT 0,                                  -- the last that was made ready,
  items_failed int NOT NULL DEFAULT 0,
  attempt smallint NOT NULL DEFAULT 0,
  token bigint,                                                        -- of the lease under which it runs, and who holds it: for people
  worker text,
  since timestamptz NOT NULL DEFAULT clock_timestamp(),                -- that it is in this state
  why text,                                                            -- it waits, was skipped, failed or was cancelled
  message text,                                                        -- the error, of one that failed
  due_at timestamptz,                                                  -- when it goes on by itself
  checkpoint jsonb,
  progress jsonb,
  PRIMARY KEY (run, no, idx)
) WITH (fillfactor = 50);

-- The legal moves (docs/state-machines.md). The functions see to it that no other is made; tests compare all that they have logged with these.
CREATE TABLE bugle.step_move (
  from_state text NOT NULL,
  to_state text NOT NULL,
  cause text NOT NULL,
  PRIMARY KEY (from_state, to_state, cause)
);
INSERT INTO bugle.step_move (from_state, to_state, cause) VALUES
  ('pending', 'ready', 'parents'),
  ('pending', 'waiting', 'parents'),        -- a sleep, a signal, the elements of a map
  ('pending', 'skipped', 'parents'),
  ('ready', 'running', 'claim'),
  ('running', 'running', 'claim'),          -- its lease had ended, or the one who had it never said so
  ('waiting', 'running', 'claim'),          -- its retry is due
  ('ready', 'waiting', 'pause'),
  ('waiting', 'waiting', 'pause'),
  ('running', 'waiting', 'pause'),
  ('waiting', 'ready', 'resume'),
  ('running', 'succeeded', 'ack'),
  ('ready', 'succeeded', 'ack'),            -- the server forgot that it was begun, which is not flushed; the job tells
  ('waiting', 'succeeded', 'ack'),
  ('running', 'waiting', 'fail'),
  ('ready', 'waiting', 'fail'),
  ('waiting', 'waiting', 'fail'),
  ('running', 'failed', 'fail'),
  ('ready', 'failed', 'fail'),
  ('waiting', 'failed', 'fail'),
  ('waiting', 'succeeded', 'time'),         -- a sleep is over
  ('waiting', 'succeeded', 'signal'),
  ('waiting', 'failed', 'time'),            -- a signal did not come
  ('waiting', 'succeeded', 'items'),        -- at once, if there are none
  ('waiting', 'failed', 'items'),
  ('pending', 'failed', 'deadline'),
  ('ready', 'failed', 'deadline'),
  ('running', 'failed', 'deadline'),
  ('waiting', 'failed', 'deadline'),
  ('pending', 'cancelled', 'cancel'),
  ('ready', 'cancelled', 'cancel'),
  ('running', 'cancelled', 'cancel'),
  ('waiting', 'cancelled', 'cancel'),
  ('waiting', 'ready', 'retry'),            -- its next attempt, at once
  ('failed', 'ready', 'retry'),             -- an element of a map, and the map waits for it again
  ('failed', 'waiting', 'retry'),
  ('succeeded', 'waiting', 'retry'),
  ('waiting', 'waiting', 'resume');         -- a sleep, a signal, a map
-- By hand a step is first made pending again, with all that was decided because of it, and then what it shall be.
INSERT INTO bugle.step_move (from_state, to_state, cause)
SELECT f, 'pending', c
FROM unnest(ARRAY['ready', 'running', 'waiting', 'failed', 'skipped', 'cancelled']) AS f
CROSS JOIN unnest(ARRAY['resolve', 'skip', 'restart']) AS c;
INSERT INTO bugle.step_move (from_state, to_state, cause) VALUES
  ('succeeded', 'pending', 'restart'),
  ('failed', 'pending', 'retry'),           -- and those that wait for it again, none of which has begun
  ('skipped', 'pending', 'retry'),
  ('cancelled', 'pending', 'retry'),
  ('pending', 'ready', 'retry'),
  ('pending', 'waiting', 'retry'),
  ('pending', 'ready', 'restart'),
  ('pending', 'waiting', 'restart'),
  ('pending', 'succeeded', 'resolve'),
  ('pending', 'skipped', 'skip');

CREATE TABLE bugle.run_move (
  from_state text NOT NULL,
  to_state text NOT NULL,
  cause text NOT NULL,
  PRIMARY KEY (from_state, to_state, cause)
);
INSERT INTO bugle.run_move (from_state, to_state, cause) VALUES
  ('queued', 'running', 'claim'),
  ('queued', 'succeeded', 'end'),           -- nobody had to claim anything: every step was skipped or resolved
  ('queued', 'failed', 'end'),
  ('running', 'succeeded', 'end'),
  ('running', 'failed', 'end'),
  ('queued', 'cancelled', 'cancel'),
  ('running', 'cancelled', 'cancel'),
  ('succeeded', 'running', 'restart'),
  ('failed', 'running', 'restart'),
  ('cancelled', 'running', 'restart'),
  ('queued', 'queued', 'pause'),            -- whether it is paused is no state
  ('running', 'running', 'pause'),
  ('queued', 'queued', 'resume'),
  ('running', 'running', 'resume');

-- Every move of every run (no 0) and step, with who made it and why. Append-only; together with the values it tells all that the tables above
-- hold. Kept as long as its run is, and dropped by the day (0033).
CREATE TABLE bugle.flow_event (
  filed_at timestamptz NOT NULL DEFAULT clock_timestamp(),             -- in which partition it is: that of its day, or of those that outlive it
  at timestamptz NOT NULL,
  run bigint NOT NULL,
  no smallint NOT NULL,
  idx int NOT NULL,
  epoch int NOT NULL,
  cause text NOT NULL,
  from_state text,                                                     -- NULL: it was made
  to_state text NOT NULL,
  attempt smallint NOT NULL DEFAULT 0,
  actor text,                                                          -- a worker or a person; NULL: Bugle
  why text,
  message text,
  due_at timestamptz
) PARTITION BY RANGE (filed_at);
CREATE INDEX flow_event_run ON bugle.flow_event (run);
CREATE TABLE bugle.flow_event_default PARTITION OF bugle.flow_event DEFAULT;
