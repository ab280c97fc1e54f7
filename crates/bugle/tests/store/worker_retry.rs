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
}

/// Its members have meanings of Bugle's own, and more will come.
#[tokio::test]
async fn extra_takes_a_retry_rule_and_nothing_else() {
    let f = Fixture::new().await;
    let enqueue = async |extra: &str| {
        let sql = f.db.sql("SELECT bugle.enqueue('q', 'k', extra => $1::jsonb)").unwrap();
        let answer = sqlx::query(sql).bind(extra).execute(f.db.pool()).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    let long = format!(r#"{{"retry": "{}"}}"#, "x".repeat(5_000));
    for (extra, said) in [
        ("[1]", "extra is no JSON object but of type array"),
        ("null", "of type null"),
        (&long, "bytes long; allowed are at most 4096"),
        (
            r#"{"customer": 7}"#,
            r#"extra has the member "customer"; the only one that it may have is "retry""#,
        ),
        (r#"{"retry": {"table_s": [0]}, "order_key": "a"}"#, r#"the member "order_key""#),
        (r#"{"retry": 5}"#, "extra.retry is 5, which is no retry rule"),
        (r#"{"retry": null}"#, "no retry rule"),
        (r#"{"retry": {"table_s": []}}"#, "no retry rule"),
        (r#"{"retry": {"table_s": [0, -1]}}"#, "no retry rule"),
        (r#"{"retry": {"table_s": [0, "1"]}}"#, "no retry rule"),
        (r#"{"retry": {"tables_s": [0, 1]}}"#, "no retry rule"),
        (r#"{"retry": {"base_s": 1, "max_s": 900}}"#, "no retry rule"),
        (r#"{"retry": {"base_s": 1, "max_s": 1e300, "jitter": 0}}"#, "no retry rule"),
    ] {
        let fault = enqueue(extra).await.unwrap_err();
        assert!(fault.contains(said), "{extra}: {fault}");
    }
    assert_eq!(f.counts().await, "", "nothing was written");
    for extra in [
        "{}",
        r#"{"retry": {"table_s": [0, 30, 300]}}"#,
        r#"{"retry": {"base_s": 1, "max_s": 900, "jitter": 0.2}}"#,
    ] {
        enqueue(extra).await.unwrap();
    }
}

/// What Rust writes, SQL takes: each of them names the limits of a rule for itself.
#[tokio::test]
async fn every_rule_that_rust_writes_is_taken() {
    let f = Fixture::new().await;
    let century = Duration::from_hours(24 * 36_500);
    for rule in [
        Backoff::default(),
        Backoff::Exponential { base: Duration::from_nanos(1), max: century, jitter: -1.0 },
        Backoff::table([Duration::ZERO; 100]),
        Backoff::table([Duration::ZERO, century]),
    ] {
        f.bugle.enqueue(&Add { n: 0 }).retry(&rule).send().await.unwrap();
    }
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
