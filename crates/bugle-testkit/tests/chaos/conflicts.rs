//! Row 20: what others do at the same moment makes statements fail: deadlocks, serialization failures, locks that are
//! not to be had, and plans that do not fit any more.
use crate::place::{LEASE, NODE, Nodes, again_and_again, demand};
use bugle::Bugle;
use bugle_testkit::chaos::{Recorded, Run, Within, seconds};
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::TestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Who waits so long looks for a deadlock, and is the one to go.
const DEADLOCK_TIMEOUT: &str = "200ms";
const CALLERS: u64 = 4;
const KINDS: [&str; 3] = ["deadlock", "refused", "other_plans"];

/// Every other statement of a session that counts something fails. A sequence and a session's lock are not rolled back.
const FAIL_EVERY_OTHER: &str = "
    CREATE SEQUENCE IF NOT EXISTS bugle.failures;
    CREATE OR REPLACE FUNCTION bugle.fail_every_other() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF pg_advisory_unlock(2020, pg_backend_pid()) THEN
        RETURN NULL;
      END IF;
      PERFORM pg_advisory_lock(2020, pg_backend_pid());
      IF nextval('bugle.failures') % 2 = 0 THEN
        RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
      END IF;
      RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = 'lock_not_available';
    END $$;
    CREATE TRIGGER fail_every_other BEFORE INSERT ON bugle.tally EXECUTE FUNCTION bugle.fail_every_other()";

/// The type of a column that looks answer with becomes another, and what is prepared fits no longer.
const CHANGE_A_TYPE: &str = "DO $$
    DECLARE
      view text := pg_get_viewdef('bugle.job_view');
      is_text boolean := 'text'::regtype = (SELECT atttypid FROM pg_attribute WHERE attrelid = 'bugle.job'::regclass AND attname = 'kind');
    BEGIN
      DROP VIEW bugle.job_view;
      EXECUTE format('ALTER TABLE bugle.job ALTER COLUMN kind TYPE %s', CASE WHEN is_text THEN 'varchar' ELSE 'text' END);
      EXECUTE 'CREATE VIEW bugle.job_view AS ' || view;
    END $$";

/// A session of somebody else in Bugle's tables.
struct Stranger {
    session: PgConnection,
    db: TestDb,
}

impl Stranger {
    async fn new(db: TestDb) -> Self {
        let mut session = PgConnection::connect_with(db.connect_options()).await.unwrap();
        sqlx::raw_sql("SET deadlock_timeout = '1h'; SET client_min_messages = warning")
            .execute(&mut session)
            .await
            .unwrap();
        Self { session, db }
    }

    async fn run(&mut self, sql: &str) {
        sqlx::raw_sql(self.db.sql(sql).unwrap()).execute(&mut self.session).await.unwrap();
    }

    /// Takes the locks that an enqueue takes, in the other order, when one is between them.
    async fn deadlock(&mut self) {
        self.run("BEGIN; LOCK TABLE bugle.tally IN SHARE MODE").await;
        let waits = "SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks h USING (pid) WHERE w.relation = 'bugle.tally'::regclass AND NOT w.granted
            AND h.relation = 'bugle.job'::regclass AND h.mode = 'RowExclusiveLock' AND h.granted)";
        while !sqlx::query_scalar::<_, bool>(self.db.sql(waits).unwrap())
            .fetch_one(self.db.pool())
            .await
            .unwrap()
        {
            tokio::task::yield_now().await;
        }
        self.run("LOCK TABLE bugle.job IN SHARE MODE; ROLLBACK").await;
    }

    /// How many deadlocks the server has found.
    async fn deadlocks(&self) -> i64 {
        let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar(counted).fetch_one(self.db.pool()).await.unwrap()
    }
}

/// Enqueues in every way that Bugle could repeat, and is never told that somebody was in the way.
async fn call(client: Recorded, number: u64, stop: CancellationToken) -> u64 {
    let mut mark = (1 << 60) + (number << 40);
    while !stop.is_cancelled() {
        mark += 1;
        let answered = match mark % 3 {
            0 => client.enqueue_plain(mark, 5).await.unwrap().is_some(),
            1 => client.enqueue_with_key(mark, &format!("key-{mark}"), 5).await.unwrap().is_some(),
            _ => !client.enqueue(&[mark], None, 5, Within::Call).await.unwrap().is_empty(),
        };
        assert!(answered, "call {mark} was refused");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    mark & 0xff_ffff
}

#[tokio::test]
async fn row_20_whoever_enqueues_is_not_told_that_others_were_in_the_way() {
    let db = TestDb::database().await.unwrap(); // deadlocks are counted for each database
    let mut run = Run::new(db.bugle().await.unwrap(), NODE, LEASE).unwrap();
    let url = format!("{}?options[deadlock_timeout]={DEADLOCK_TIMEOUT}", db.url());
    let nodes = Nodes::start(&mut run, &url, 2, 3);
    let options = db.connect_options().clone().options([("deadlock_timeout", DEADLOCK_TIMEOUT)]);
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    let bugle = Bugle::new(pool, bugle::Options::default()).await.unwrap();
    let stop = CancellationToken::new();
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let client = run.client(bugle.clone(), &format!("caller-{number}")).await.unwrap();
        callers.spawn(call(client, number, stop.clone()));
    }
    let nemesis = run.nemesis();
    let mut stranger = Stranger::new(db).await;
    let mut turn = 0;
    // One at a time: whoever is refused a second time, for another reason, is told.
    again_and_again(seconds(4), Duration::from_millis(150), async || {
        let kind = KINDS[turn % KINDS.len()];
        turn += 1;
        let window = nemesis.fault(FaultKind::Other(kind.into()), None).unwrap();
        match kind {
            "deadlock" => stranger.deadlock().await,
            "refused" => {
                stranger.run(FAIL_EVERY_OTHER).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
                stranger.run("DROP TRIGGER fail_every_other ON bugle.tally").await;
            }
            _ => {
                stranger.run(CHANGE_A_TYPE).await;
                stranger.run(CHANGE_A_TYPE).await; // and back
            }
        }
        window.end().unwrap();
    })
    .await;
    stop.cancel();
    let calls: u64 = callers.join_all().await.into_iter().sum();
    let begun = Instant::now();
    while stranger.deadlocks().await == 0 && begun.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(50)).await; // told a little later
    }
    let failures = stranger.db.sql("SELECT last_value FROM bugle.failures").unwrap();
    let failures: i64 = sqlx::query_scalar(failures).fetch_one(stranger.db.pool()).await.unwrap();
    let deadlocks = stranger.deadlocks().await;
    eprintln!("{calls} calls, {deadlocks} deadlocks, {failures} statements refused");
    assert!(calls > 50 && deadlocks > 0 && failures > 10);
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    for kind in KINDS {
        demand(&report, &FaultKind::Other(kind.into()), 1, 0);
    }
}
