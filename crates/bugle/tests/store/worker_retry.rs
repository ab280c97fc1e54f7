//! When a failed job is tried again, by whose rule.
use crate::fixture::Fixture;
use crate::work::{Add, quick, settled, start};
use bugle::jobs::{Backoff, inspect::FailedAttempt};
use bugle::{Error, JobId, Verdict, Worker};
use std::time::Duration;

/// A worker whose every job fails and whose own rule would take hours.
fn failing(f: &Fixture) -> Worker {
    let slow = Backoff::exponential(Duration::from_hours(1), Duration::from_hours(9));
    quick(f).backoff(slow).handle(async |_: Add| Err::<(), _>(std::io::Error::other("no")))
}

async fn run_until(f: &Fixture, worker: Worker, wanted: &str) {
    let (stop, running) = start(worker);
    settled(f, wanted).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

async fn failures(f: &Fixture, id: JobId) -> Vec<FailedAttempt> {
    f.bugle.show_job(id).await.unwrap().unwrap().failures
}

#[tokio::test]
async fn a_job_with_the_table_of_seed_004_is_tried_three_times_then_dead() {
    let f = Fixture::new().await;
    let table = Backoff::table([0, 30, 60].map(Duration::from_millis));
    let id = f.bugle.enqueue(&Add { n: 0 }).max_attempts(9).retry(&table).send().await.unwrap();
    run_until(&f, failing(&f), "dead 1").await;
    let failed = failures(&f, id).await;
    assert_eq!(failed.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        failed.iter().all(|a| a.code == "std::io::error::Error" && a.message == "no"),
        "each with its error"
    );
    let gaps: Vec<_> =
        failed.windows(2).map(|w| (w[1].failed_at - w[0].failed_at).num_milliseconds()).collect();
    assert!(gaps[0] >= 30 && gaps[1] >= 60, "{gaps:?}");
    let shown = f.bugle.show_job(id).await.unwrap().unwrap();
    assert_eq!(shown.row.max_attempts, 3, "the table says how many attempts there are");
}

#[tokio::test]
async fn a_workers_table_ends_before_the_jobs_attempts_do() {
    let f = Fixture::new().await;
    let id = f.bugle.enqueue(&Add { n: 0 }).max_attempts(9).send().await.unwrap();
    let worker = failing(&f).backoff(Backoff::table([Duration::ZERO; 2]));
    run_until(&f, worker, "dead 1").await;
    assert_eq!(failures(&f, id).await.len(), 2);
}

#[tokio::test]
async fn a_rule_may_be_written_in_sql_and_survives_a_snooze() {
    let f = Fixture::new().await;
    let sql =
        r#"SELECT bugle.enqueue('q', 'add', '{"n": 0}', extra => '{"retry": {"table_s": [0, 0.001]}}')"#;
    let id = JobId(f.one::<i64>(sql).await);
    let look = f.claim(1).await;
    f.queue.snooze(&[(look.jobs[0].receipt, Duration::ZERO)], &[look.token]).await.unwrap();
    run_until(&f, failing(&f), "dead 1").await;
    assert_eq!(failures(&f, id).await.len(), 2);
    let refused = sqlx::query(f.db.sql("SELECT bugle.enqueue('q', 'k', extra => '[1]')").unwrap());
    let error = refused.execute(f.db.pool()).await.unwrap_err().to_string();
    assert!(error.contains("extra is no JSON object"), "{error}");
}

#[tokio::test]
async fn the_first_wait_of_a_table_is_the_jobs_delay() {
    let f = Fixture::new().await;
    let table = Backoff::table([Duration::from_hours(1); 2]);
    f.bugle.enqueue(&Add { n: 0 }).retry(&table).send().await.unwrap();
    assert_eq!(f.counts().await, "scheduled 1");
    let empty = f.bugle.enqueue(&Add { n: 0 }).retry(&Backoff::table([])).send().await;
    assert!(matches!(empty, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn a_handler_may_say_itself_when_to_try_again() {
    let f = Fixture::new().await;
    let id = f.bugle.enqueue(&Add { n: 0 }).max_attempts(3).send().await.unwrap();
    let soon = |_: Add| async { Verdict::retry_in(Duration::from_millis(1), "busy", "come back") };
    run_until(&f, failing(&f).handle(soon), "dead 1").await;
    assert_eq!(failures(&f, id).await.iter().map(|a| a.code.as_str()).collect::<Vec<_>>(), ["busy"; 3]);
}
