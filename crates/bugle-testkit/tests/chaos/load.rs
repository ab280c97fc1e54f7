//! Rows 27 and 28: very many jobs that become due at once, and a forgotten transaction under churn.
use crate::place::{LEASE, NODE, shared_run};
use bugle_testkit::chaos::{Due, Recorded, Role, Run, Within, broken, seconds};
use bugle_testkit::checker::Report;
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::{TestDb, hold_snapshot};
use chrono::TimeDelta;
use sqlx::Row as _;
use std::ops::RangeFrom;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The mark of the first job of a flood: beyond those of all producers.
const FLOOD: u64 = 1 << 60;
const CONSUMERS: usize = 4;
/// What one enqueue or claim takes.
const BATCH: usize = 500;
/// So many batches come and go under a held snapshot, however slow the machine is.
const ROUNDS_MIN: usize = 150;
/// A lease that does not end here.
const LONG: Duration = Duration::from_mins(10);

/// The value that so many of a hundred do not exceed.
fn percentile<T: Ord + Copy>(values: &mut [T], of_hundred: usize) -> T {
    values.sort_unstable();
    values[(values.len() * of_hundred / 100).min(values.len() - 1)]
}

/// Takes and acks until told to stop: how late each job of the flood was by the database's clock, in milliseconds.
async fn consume(client: Recorded, stop: CancellationToken) -> Vec<i64> {
    let mut late = Vec::new();
    while !stop.is_cancelled() {
        let look = client
            .claim_within(u32::try_from(BATCH).unwrap(), LONG, Duration::from_millis(200))
            .await
            .unwrap();
        let Some(look) = look else { continue };
        for job in look.jobs.iter().filter(|job| job.payload.get().parse::<u64>().unwrap() >= FLOOD) {
            late.push((look.claimed_at - job.due_at).num_milliseconds());
        }
        let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
        client.ack(&receipts, &[look.token]).await.unwrap().unwrap();
    }
    late
}

#[tokio::test]
async fn row_27_a_flood_of_jobs_due_in_one_second_is_handed_out_in_time_and_starves_nobody() {
    let jobs = if seconds(0) > Duration::from_secs(30) { 100_000 } else { 20_000 };
    let (db, mut run) = shared_run().await;
    let nodes = [run.bugle.clone(), db.bugle().await.unwrap()];
    let producer = run.node(Role::Producer, db.url()).unwrap();
    let source = run.client(run.bugle.clone(), "source").await.unwrap();
    let lead = TimeDelta::milliseconds(1_000 + i64::try_from(jobs / 10).unwrap());
    let base = source.db_now().await.unwrap() + lead;
    for batch in 0..jobs / BATCH {
        let marks: Vec<u64> =
            (batch * BATCH..(batch + 1) * BATCH).map(|n| FLOOD + u64::try_from(n).unwrap()).collect();
        let due = base + TimeDelta::milliseconds(i64::try_from(batch * 1_000 * BATCH / jobs).unwrap());
        source.enqueue(&marks, Some(Due::At(due)), 5, Within::Call).await.unwrap();
    }
    let enqueued = source.db_now().await.unwrap();
    assert!(
        enqueued < base,
        "the machine is too slow for this test: they were due before they were enqueued"
    );

    let window = run.nemesis().fault(FaultKind::Other("flood".into()), None).unwrap();
    let stop = CancellationToken::new();
    let mut consumers = tokio::task::JoinSet::new();
    for number in 0..CONSUMERS {
        let client =
            run.client(nodes[number % nodes.len()].clone(), &format!("consumer-{number}")).await.unwrap();
        consumers.spawn(consume(client, stop.clone()));
    }
    let begun = Instant::now();
    let scheduled = async || run.bugle.list_queues().await.unwrap()[0].scheduled;
    while scheduled().await > 100 && begun.elapsed() < Duration::from_mins(2) {
        tokio::time::sleep(Duration::from_millis(50)).await; // the producer always has some
    }
    producer.stop().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.cancel();
    let each = consumers.join_all().await;
    window.end().unwrap();
    let mut late = each.concat();
    assert_eq!(late.len(), jobs, "each was handed out once");
    let p99 = percentile(&mut late, 99);
    let least = each.iter().map(Vec::len).min().unwrap();
    eprintln!("{jobs} jobs due in one second: p99 {p99} ms late, the one with the fewest had {least}");
    assert!(late[0] >= 0 && p99 <= 5_000, "from {} to {p99} ms late", late[0]);
    assert!(least > jobs / CONSUMERS / 10, "one consumer had only {least}");
    let report = run.finish(Vec::new(), Vec::new()).await.unwrap();
    report.demand(1, 0).unwrap();
}

/// How long takes of one job took.
#[derive(Default)]
struct Times {
    /// From the queue where many come and go.
    busy: Vec<Duration>,
    /// From another one: whatever else the machine does, it does to both.
    quiet: Vec<Duration>,
}

impl Times {
    fn busy_by_quiet(&mut self, of_hundred: usize) -> f64 {
        let (busy, quiet) = (percentile(&mut self.busy, of_hundred), percentile(&mut self.quiet, of_hundred));
        eprintln!("p{of_hundred} of a take: {busy:?}, from the quiet queue {quiet:?}");
        busy.as_secs_f64() / quiet.as_secs_f64()
    }
}

/// A queue where many jobs come and go, and a quiet one.
struct Churn {
    busy: Recorded,
    quiet: Recorded,
    marks: RangeFrom<u64>,
}

impl Churn {
    async fn new(run: &Run) -> Self {
        let busy = run.client(run.bugle.clone(), "churner").await.unwrap();
        let quiet = Recorded::new(run.bugle.clone(), "quiet", run.recorder.client(), "prober").await.unwrap();
        Self { busy, quiet, marks: 1.. }
    }

    /// Enqueues, takes and acks so many jobs at once: how long the take took.
    async fn pass(client: &Recorded, marks: &mut RangeFrom<u64>, jobs: usize) -> Duration {
        let some: Vec<u64> = marks.take(jobs).collect();
        client.enqueue(&some, None, 5, Within::Call).await.unwrap();
        let begun = Instant::now();
        let look = client.claim_within(u32::try_from(jobs).unwrap(), LONG, LONG).await.unwrap().unwrap();
        let took = begun.elapsed();
        let receipts: Vec<_> = look.jobs.iter().map(|job| job.receipt).collect();
        client.ack(&receipts, &[look.token]).await.unwrap().unwrap();
        took
    }

    async fn many(&mut self) {
        Self::pass(&self.busy, &mut self.marks, BATCH).await;
    }

    /// Many jobs come and go for this time.
    async fn measure(&mut self, time: Duration) -> Times {
        let begun = Instant::now();
        let mut times = Times::default();
        while begun.elapsed() < time {
            self.many().await;
            for _ in 0..5 {
                times.busy.push(Self::pass(&self.busy, &mut self.marks, 1).await);
                times.quiet.push(Self::pass(&self.quiet, &mut self.marks, 1).await);
            }
        }
        times
    }
}

/// What doctor asks, which names whoever holds back what is gone.
const HORIZON: &str = include_str!("../../../bugle-cli/src/commands/doctor/sql/horizon.sql");

/// How many times as long as from a quiet queue a take took, after a while under which somebody held a snapshot.
struct SlowDown {
    median: f64,
    p99: f64,
    report: Report,
}

async fn slow_down(db: &TestDb, run: Run, time: Duration) -> SlowDown {
    let mut churn = Churn::new(&run).await;
    churn.measure(time / 4).await; // the first of everything takes longer
    let window = run.nemesis().fault(FaultKind::Other("held_snapshot".into()), None).unwrap();
    let held = hold_snapshot(db.connect_options()).await.unwrap();
    let begun = Instant::now();
    for round in 0.. {
        if round >= ROUNDS_MIN && begun.elapsed() > time / 2 {
            break;
        }
        churn.many().await;
    }
    let mut last = churn.measure(time / 4).await;
    let alarms = sqlx::query(HORIZON).fetch_all(db.pool()).await.unwrap();
    let holder = format!("process {} ", held.pid());
    let named = alarms.iter().any(|alarm| alarm.get::<String, _>("who").starts_with(&holder));
    assert!(named, "nobody would know who holds it");
    held.release().await.unwrap();
    window.end().unwrap();
    let (median, p99) = (last.busy_by_quiet(50), last.busy_by_quiet(99));
    eprintln!("{} jobs came and went", churn.marks.start - 1);
    SlowDown { median, p99, report: run.finish(Vec::new(), Vec::new()).await.unwrap() }
}

#[tokio::test]
async fn row_28_a_forgotten_transaction_does_not_slow_down_takes_and_is_named() {
    let db = TestDb::database().await.unwrap(); // a snapshot holds back what is removed in its database
    let run = Run::new(db.bugle().await.unwrap(), NODE, LEASE).unwrap();
    let slow = slow_down(&db, run, seconds(6)).await;
    assert!(slow.median < 3.0, "takes were {:.1} times as slow", slow.median);
    // Of some hundred takes the slowest is so by chance.
    assert!(
        seconds(0) < Duration::from_secs(30) || slow.p99 < 5.0,
        "the slow ones were {:.1} times as slow",
        slow.p99
    );
    slow.report.demand(1, 0).unwrap();
}

#[tokio::test]
async fn row_28_is_red_when_takes_walk_over_what_is_gone() {
    let db = TestDb::database().await.unwrap();
    let mut run = Run::new(db.bugle().await.unwrap(), NODE, LEASE).unwrap();
    broken::CLAIM_FROM_THE_BEGINNING.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(5));
    let slow = slow_down(&db, run, Duration::from_secs(6)).await;
    assert!(slow.median > 3.0, "takes were only {:.1} times as slow", slow.median);
}
