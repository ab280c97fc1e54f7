//! Row 24: fifty enqueues at once with one key, by two processes.
use crate::place::shared_run;
use bugle_testkit::chaos::{NAMESAKES, Role, Run, broken};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::postgres::TestDb;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};

const PROCESSES: i64 = 2;
/// How long the processes may take to start.
const THERE_WITHIN: Duration = Duration::from_secs(30);

/// Nobody gets past the keys before all are there.
async fn fifty_at_once(db: &TestDb, mut run: Run) -> Report {
    let mut gate = PgConnection::connect_with(db.connect_options()).await.unwrap();
    let shut = db.sql("BEGIN; LOCK TABLE bugle.job_key IN ACCESS EXCLUSIVE MODE").unwrap();
    sqlx::raw_sql(shut).execute(&mut gate).await.unwrap();
    let nodes: Vec<_> = (0..PROCESSES).map(|_| run.node(Role::Namesakes, db.url()).unwrap()).collect();
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'bugle.job_key'::regclass AND NOT granted";
    let begun = Instant::now();
    let callers = PROCESSES * i64::from(NAMESAKES);
    loop {
        let there: i64 = sqlx::query_scalar(db.sql(waiting).unwrap()).fetch_one(db.pool()).await.unwrap();
        if there == callers {
            break;
        }
        assert!(begun.elapsed() < THERE_WITHIN, "only {there} callers have come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.close().await.unwrap();
    let report = run.finish(nodes, Vec::new()).await.unwrap();
    let enqueues = u64::try_from(callers).unwrap();
    assert!(report.counts.events > 2 * enqueues, "every call was invoked and answered");
    report
}

#[tokio::test]
async fn row_24_fifty_enqueues_with_one_key_make_one_job() {
    let (db, run) = shared_run().await;
    let bugle = run.bugle.clone();
    let report = fifty_at_once(&db, run).await;
    report.demand(0, 0).unwrap(); // by I3 all of them were told the same job
    assert_eq!(report.counts.unknowns, 0);
    assert_eq!(bugle.list_queues().await.unwrap()[0].done, 1);
}

#[tokio::test]
async fn row_24_is_red_when_keys_are_ignored() {
    let (db, mut run) = shared_run().await;
    broken::KEYS_IGNORED.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(5));
    let report = fifty_at_once(&db, run).await;
    assert!(report.broken_rules().contains(&Rule::I3), "{report}");
}
