-- What a duroxide runtime keeps. Events, items and results are kept as the text that was given: PostgreSQL never reads them, so text that
-- cannot be decoded is found by whoever decodes it, and no claim fails because of it.

-- Every new or changed past of an instance has a number of its own: caches compare it.
CREATE SEQUENCE bugle.incarnation;

CREATE TABLE bugle.instance (
  id text COLLATE "C" PRIMARY KEY,
  -- Another one when the instance is made anew under the same id, and when somebody changes its history other than by adding to it.
  incarnation bigint NOT NULL DEFAULT nextval('bugle.incarnation'),
  name text,                                                           -- NULL: only its history is known; it is not listed
  version text,
  parent text COLLATE "C",
  execution bigint NOT NULL DEFAULT 1,                                 -- the current one
  pinned bigint,                                                       -- the duroxide version that the current execution is pinned to, packed
  last_event bigint NOT NULL DEFAULT 0,                                -- the highest event of the current execution
  node text,                                                           -- who wrote it, and so has the history in memory
  custom_status text,
  custom_status_version bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);                                              -- updated at every turn, in place
CREATE INDEX instance_parent ON bugle.instance (parent) WHERE parent IS NOT NULL;

CREATE TABLE bugle.execution (
  instance text COLLATE "C" NOT NULL,
  execution bigint NOT NULL,
  status text NOT NULL DEFAULT 'Running',
  output text,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  completed_at timestamptz,
  PRIMARY KEY (instance, execution)
) WITH (fillfactor = 70);

CREATE TABLE bugle.history (
  instance text COLLATE "C" NOT NULL,
  execution bigint NOT NULL,
  event bigint NOT NULL,
  kind text NOT NULL,
  data text NOT NULL,
  PRIMARY KEY (instance, execution, event)
);

-- History grows and is dropped as a whole. Whoever changes or removes single events by hand makes every cache forget the instance.
CREATE FUNCTION bugle.forget_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.instance i SET incarnation = nextval('bugle.incarnation')
  FROM (SELECT DISTINCT c.instance FROM changed c) c
  WHERE i.id = c.instance;
  RETURN NULL;
END $$;
CREATE TRIGGER history_changed AFTER UPDATE ON bugle.history REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION bugle.forget_history();
CREATE TRIGGER history_removed AFTER DELETE ON bugle.history REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION bugle.forget_history();

-- What instances are to be told.
CREATE TABLE bugle.message (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  instance text COLLATE "C" NOT NULL,
  kind text NOT NULL,                                                  -- start: may begin an instance; queue: worthless without one; other
  item text NOT NULL,
  due timestamptz NOT NULL,
  token uuid,                                                          -- of the claim that has it
  attempt int NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX message_instance ON bugle.message (instance, id);

-- One row for each instance with messages, and only while it has some. It is the instance's lease, and the lock under which its messages come
-- and go: whoever adds a message locks this row first (FOR KEY SHARE), whoever ends a lease waits for them (FOR UPDATE), whoever claims passes
-- over a row that somebody else claims, renews or makes due (FOR NO KEY UPDATE).
-- due: when the instance may next be claimed. Free: as soon as the first of its messages is due. Leased: when the lease ends. Messages for
-- an instance that has not begun wait for its start: infinity. So timers, delayed retries and ended leases are one index.
-- Lock order, everywhere: inbox rows by instance, then instance, then work, then session.
CREATE TABLE bugle.inbox (
  instance text COLLATE "C" PRIMARY KEY,
  due timestamptz NOT NULL,
  token uuid                                                           -- of the lease; NULL: free
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX inbox_due ON bugle.inbox (due, instance);

-- Activities to be run. due and token as in inbox.
CREATE TABLE bugle.work (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  instance text COLLATE "C",
  execution bigint,
  activity bigint,
  session text COLLATE "C",
  tag text COLLATE "C",
  item text NOT NULL,
  due timestamptz NOT NULL,
  token uuid,
  attempt int NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX work_due ON bugle.work (due, id);
CREATE INDEX work_activity ON bugle.work (instance, execution, activity);
CREATE INDEX work_session ON bugle.work (session, due) WHERE session IS NOT NULL;

-- Which worker has a session.
CREATE TABLE bugle.session (
  id text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  until timestamptz NOT NULL,
  active_at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX session_owner ON bugle.session (owner);
CREATE INDEX session_until ON bugle.session (until);

-- Keys and values of instances: what earlier executions left, and what the current one has changed (value NULL: removed). A turn replays on
-- the former alone; a client sees both.
CREATE TABLE bugle.kv (
  instance text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (instance, key)
);
CREATE TABLE bugle.kv_change (
  instance text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text,
  updated_ms bigint NOT NULL,
  PRIMARY KEY (instance, key)
);

-- The merged view of an instance's keys.
CREATE FUNCTION bugle.kv_of(p_instance text) RETURNS TABLE (key text, value text) LANGUAGE sql STABLE AS $$
  SELECT k.key, k.value FROM bugle.kv k
  WHERE k.instance = p_instance AND NOT EXISTS (SELECT FROM bugle.kv_change c WHERE c.instance = p_instance AND c.key = k.key)
  UNION ALL
  SELECT c.key, c.value FROM bugle.kv_change c WHERE c.instance = p_instance AND c.value IS NOT NULL
$$;
