//! Row 33: transactions that push and stay open, while others push to the same partition, commit and are consumed. A cursor over numbers that were
//! taken early and committed late passes over them.
use crate::broken::is_red;
use crate::place::{demand, message_run};
use bugle::Bugle;
use bugle_testkit::chaos::broken::{Break, NUMBERS_WITHOUT_THE_LOCK};
use bugle_testkit::chaos::{LAG_MAX, Messenger, QUEUE, Role, Run, seconds};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::history::{Event, FaultKind, Item, Op};
use bugle_testkit::postgres::TestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PRODUCERS: usize = 16;
/// Where all of them push.
const PARTITION: &str = "p0";
/// A transaction stays open for so long.
const OPEN_FOR: Duration = Duration::from_secs(1);
/// So many stay open, however slow the machine is.
const OPEN_MIN: u64 = 3;
/// The mark of the first message of an open transaction: beyond those of all producers.
const OPEN_MARKS: u64 = 1 << 60;

/// A message in a user's own transaction, and one in a transaction like Bugle's own, which has taken its number.
const PUSHES: [&str; 2] = [
    "SELECT bugle.push('q', 'p0', to_jsonb($1::bigint), $1::text)",
    "SELECT bugle.push_messages(ARRAY[q.id], '{p0}', ARRAY[gen_random_uuid()], ARRAY[$1::text], '{NULL}', '{NULL}', ARRAY[$1::text])
    FROM bugle.queue q WHERE q.name = 'q'",
];

fn open() -> FaultKind {
    FaultKind::Other("open_push".into())
}

/// A node with connections of its own.
async fn node(db: &TestDb) -> Bugle {
    let pool =
        PgPoolOptions::new().max_connections(3).connect_with(db.connect_options().clone()).await.unwrap();
    let options = bugle::Options { schema: db.schema_name().unwrap(), ..bugle::Options::default() };
    Bugle::new(pool, options).await.unwrap()
}

/// Pushes until told to stop, each message until that is answered with yes.
async fn produce(client: Messenger, number: usize, stop: CancellationToken) {
    let mut marks = ((u64::try_from(number).unwrap() + 1) << 32)..;
    while !stop.is_cancelled() {
        let some: Vec<u64> = marks.by_ref().take(1 + number % 3).collect();
        while !client.push(PARTITION, &some).await.unwrap() {}
        while !stop.is_cancelled() && client.lag().await.is_none_or(|lag| lag > LAG_MAX) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Pushes in a transaction and leaves it open for a while.
async fn stay_open(db: &TestDb, run: &Run, push: &str, mark: u64, open_for: Duration) {
    let item = Item { mark: Some(mark), partition: Some(PARTITION.into()), ..Item::default() };
    let mut session = PgConnection::connect_with(db.connect_options()).await.unwrap();
    let event = Event::new(&format!("open-{mark}"), Op::Push).queue(QUEUE).items([item]);
    let call = run.nemesis().invoke(event).unwrap();
    let mut tx = session.begin().await.unwrap();
    let value = i64::try_from(mark).unwrap();
    sqlx::query(db.sql(push).unwrap()).bind(value).execute(&mut *tx).await.unwrap();
    tokio::time::sleep(open_for).await; // what an open transaction is
    tx.commit().await.unwrap();
    call.ok(|event| event.items([Item::default()])).unwrap();
}

/// Sixteen producers on one partition and one consumer, for so long; meanwhile one transaction after the other stays open.
async fn push_beside_open_ones(db: &TestDb, mut run: Run, time: Duration, open_for: Duration) -> Report {
    let stop = CancellationToken::new();
    let nodes = [node(db).await, node(db).await, node(db).await, node(db).await];
    let mut producers = JoinSet::new();
    for number in 0..PRODUCERS {
        let client = run.messenger(&nodes[number % nodes.len()], &format!("producer-{number}"));
        producers.spawn(produce(client, number, stop.clone()));
    }
    let consumer = run.node(Role::Popper, db.url()).unwrap();
    let (begun, mut opened) = (Instant::now(), 0);
    while opened < OPEN_MIN || begun.elapsed() < time {
        let window = run.nemesis().fault(open(), None).unwrap();
        let mark = OPEN_MARKS + 2 * opened;
        // The second waits for the first, should that hold anything.
        tokio::join!(
            stay_open(db, &run, PUSHES[0], mark, open_for),
            stay_open(db, &run, PUSHES[1], mark + 1, open_for),
        );
        window.end().unwrap();
        opened += 1;
    }
    stop.cancel();
    producers.join_all().await;
    let report = run.finish_messages(Vec::new(), vec![consumer]).await.unwrap();
    for node in nodes {
        node.close().await;
    }
    report
}

#[tokio::test]
async fn row_33_what_stays_open_while_others_commit_and_are_consumed_is_not_passed_over() {
    let (db, run) = message_run().await;
    let report = push_beside_open_ones(&db, run, seconds(8), OPEN_FOR).await;
    demand(&report, &open(), OPEN_MIN, 0);
}

/// One run on a broker that gives numbers without the lock.
async fn work(safety: Break) -> Vec<Rule> {
    let (db, mut run) = message_run().await;
    safety.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(2));
    push_beside_open_ones(&db, run, Duration::from_secs(1), OPEN_FOR / 3).await.broken_rules()
}

#[tokio::test]
async fn row_33_is_red_when_numbers_are_given_without_the_lock() {
    is_red(NUMBERS_WITHOUT_THE_LOCK, &[Rule::M1, Rule::M2], work).await;
}
