//! Row 23: a job that no process survives.
use crate::place::{demand, shared_run};
use bugle_testkit::chaos::{Node, POISON, Role, Run, Within, broken, seconds};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::TestDb;
use std::time::{Duration, Instant};

const ATTEMPTS: u16 = 3;
/// Poison that is enqueued at once: fewer than there are workers, or nobody would be left.
const AT_ONCE: usize = 2;
const WORKERS: usize = 4;
/// Leases that end, with room for a slow machine.
const DEAD_WITHIN: Duration = Duration::from_secs(30);

/// Starts another worker for each that has died; how many.
fn replace_the_dead(run: &mut Run, workers: &mut [Node], url: &str) -> usize {
    let mut died = 0;
    for worker in workers {
        if worker.ended().unwrap().is_some() {
            let window = run.nemesis().fault(FaultKind::Poisoned, Some(&worker.who)).unwrap();
            window.end().unwrap();
            *worker = run.node(Role::Brittle, url).unwrap();
            died += 1;
        }
    }
    died
}

async fn dead_poison(db: &TestDb) -> usize {
    let dead = "SELECT count(*) FROM bugle.dead WHERE attempt = max_attempts AND payload::text::numeric >= 2::numeric ^ 63";
    let dead: i64 = sqlx::query_scalar(db.sql(dead).unwrap()).fetch_one(db.pool()).await.unwrap();
    usize::try_from(dead).unwrap()
}

/// How the poison went, and how many processes with it.
struct Toll {
    report: Report,
    poison: usize,
    dead: usize,
    died: usize,
}

/// Gives workers poison among other jobs for this long, and waits until it is dead, or for no longer than `dead_within`.
async fn poison(db: TestDb, mut run: Run, time: Duration, dead_within: Duration) -> Toll {
    let producers = (0..2).map(|_| run.node(Role::Producer, db.url()).unwrap()).collect();
    let mut workers: Vec<_> = (0..WORKERS).map(|_| run.node(Role::Brittle, db.url()).unwrap()).collect();
    let source = run.client(run.bugle.clone(), "source").await.unwrap();
    let mut marks = POISON..;
    let (begun, mut enqueued, mut died, mut dead) = (Instant::now(), 0, 0, 0);
    while begun.elapsed() < time || (dead < enqueued && begun.elapsed() < time + dead_within) {
        if dead == enqueued && begun.elapsed() < time {
            let some: Vec<u64> = marks.by_ref().take(AT_ONCE).collect();
            enqueued += source.enqueue(&some, None, ATTEMPTS, Within::Call).await.unwrap().len();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        died += replace_the_dead(&mut run, &mut workers, db.url());
        dead = dead_poison(&db).await;
    }
    let report = run.finish(producers, workers).await.unwrap();
    Toll { report, poison: enqueued, dead, died }
}

#[tokio::test]
async fn row_23_a_job_that_kills_its_workers_is_dead_after_its_attempts_and_holds_up_nobody() {
    let (db, run) = shared_run().await;
    let toll = poison(db, run, seconds(3), DEAD_WITHIN).await;
    assert_eq!(toll.dead, toll.poison, "all of it is dead, and of its last attempt");
    // Two of them may go with one process.
    assert!(toll.died * 2 >= toll.poison * usize::from(ATTEMPTS), "{} processes died", toll.died);
    // The pick-up of all other jobs is judged as if nothing had happened.
    demand(&toll.report, &FaultKind::Poisoned, 3, 0);
}

#[tokio::test]
async fn row_23_is_red_when_the_end_of_a_lease_costs_nothing() {
    let (db, mut run) = shared_run().await;
    broken::EXPIRY_NOT_COUNTED.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(2));
    let toll = poison(db, run, Duration::from_secs(3), Duration::ZERO).await;
    assert_eq!(toll.dead, 0, "it lives for ever");
    assert!(toll.report.broken_rules().contains(&Rule::I10), "{}", toll.report);
}
