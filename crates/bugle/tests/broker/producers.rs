//! Many producers on one partition, half of them in users' transactions: nothing is lost, nothing comes twice, and each producer's order is kept.
//! Taken out of the partition's lock, the numbering loses messages: the test that finds that is a test.
use crate::fixture::{Place, any, verdicts};
use bugle::broker::{Broker, Message, Verdict};
use bugle_testkit::postgres::TestDb;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const PRODUCERS: usize = 16;

/// What every producer was told is there, and what the consumers got, in the order of the log.
struct History {
    accepted: HashMap<usize, usize>,
    got: Vec<(usize, usize)>,
    numbers: Vec<i64>,
}

fn payload(producer: usize, n: usize) -> String {
    (producer * 1_000_000 + n).to_string()
}

/// Pushes in Bugle's own transactions until it is told to stop; how many were accepted.
async fn push(broker: Broker, producer: usize, stop: Arc<AtomicBool>) -> usize {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let batch = 1 + n % 3;
        let messages =
            (n..n + batch).map(|n| Message::new("q", crate::fixture::raw(&payload(producer, n))).unwrap());
        for pushed in broker.push(messages.collect()).await.unwrap() {
            pushed.unwrap();
        }
        n += batch;
    }
    n
}

/// Pushes in transactions of a user's, some of which stay open for a while.
async fn push_as_a_user(place: Arc<Place>, producer: usize, stop: Arc<AtomicBool>) -> usize {
    let sql = place.db.sql("SELECT bugle.push('q', 'Default', to_jsonb($1::bigint))").unwrap().0;
    let (mut session, mut n) = (place.session().await, 0);
    while !stop.load(Ordering::Relaxed) {
        sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
        for _ in 0..=n % 3 {
            let value: i64 = payload(producer, n).parse().unwrap();
            sqlx::query(sqlx::AssertSqlSafe(sql.as_str())).bind(value).execute(&mut session).await.unwrap();
            n += 1;
        }
        if n % 7 == producer % 7 {
            tokio::time::sleep(Duration::from_millis(30)).await; // what an open transaction is
        }
        sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
    }
    n
}

/// Pops and acks until everything was accepted and nothing is left. Every tenth claim is given back.
async fn consume(broker: Broker, total: Arc<AtomicUsize>, got: Arc<AtomicUsize>) -> Vec<(i64, i64, usize)> {
    let (mut mine, mut claims) = (Vec::new(), 0);
    let begun = Instant::now();
    while got.load(Ordering::Relaxed) < total.load(Ordering::Relaxed)
        && begun.elapsed() < Duration::from_mins(1)
    {
        let Some(popped) = broker.pop_within(&any(50), Duration::from_millis(200)).await.unwrap() else {
            continue;
        };
        claims += 1;
        if claims % 10 == 0 {
            broker.release(&popped).await.unwrap();
            continue;
        }
        let acks = verdicts(&popped, Verdict::Ack);
        broker.settle(&acks).await.unwrap();
        got.fetch_add(popped.messages.len(), Ordering::Relaxed);
        mine.extend(popped.messages.iter().map(|m| (m.seq, m.n, m.payload.parse::<usize>().unwrap())));
    }
    mine
}

async fn run(place: Arc<Place>, time: Duration) -> History {
    let (stop, total, got) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(usize::MAX)),
        Arc::new(AtomicUsize::new(0)),
    );
    let nodes = [place.node().await, place.node().await];
    let consumers: Vec<_> =
        nodes.iter().map(|node| tokio::spawn(consume(node.broker(), total.clone(), got.clone()))).collect();
    // One node writes what its callers push together: several nodes meet in the database.
    let pushers = [place.node().await, place.node().await, place.node().await, place.node().await];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| match producer % 2 {
            0 => tokio::spawn(push(pushers[producer / 2 % 4].broker(), producer, stop.clone())),
            _ => tokio::spawn(push_as_a_user(place.clone(), producer, stop.clone())),
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut accepted = HashMap::new();
    for (producer, task) in producers.into_iter().enumerate() {
        accepted.insert(producer, task.await.unwrap());
    }
    total.store(accepted.values().sum(), Ordering::Relaxed);
    let mut all = Vec::new();
    for consumer in consumers {
        all.extend(consumer.await.unwrap());
    }
    all.sort_unstable();
    for node in nodes.into_iter().chain(pushers) {
        node.close().await;
    }
    History {
        accepted,
        numbers: all.iter().map(|(_, n, _)| *n).collect(),
        got: all.iter().map(|(_, _, payload)| (payload / 1_000_000, payload % 1_000_000)).collect(),
    }
}

impl History {
    /// What is wrong with it; nothing: it is as it should be.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (producer, accepted) in &self.accepted {
            let own: Vec<usize> =
                self.got.iter().filter(|(who, _)| who == producer).map(|(_, n)| *n).collect();
            if own != (0..*accepted).collect::<Vec<_>>() {
                let sorted = own.is_sorted();
                faults.push(format!(
                    "producer {producer}: {accepted} accepted, {} got, in order: {sorted}",
                    own.len()
                ));
            }
        }
        let dense: Vec<i64> = (1..).take(self.numbers.len()).collect();
        if self.numbers != dense {
            faults.push("n is not dense".to_owned());
        }
        faults
    }
}

async fn place_with_connections() -> Arc<Place> {
    let db = TestDb::database().await.unwrap();
    let bugle = db.bugle().await.unwrap();
    let broker = bugle.broker();
    let place = Place { db, bugle, broker };
    place.push("Default", []).await;
    place.execute("SELECT bugle.declare_queue('q', 'default', 'messages')").await;
    Arc::new(place)
}

/// A push takes a moment between its number and its commit, as on a slow disk.
async fn slow_commits(place: &Place) {
    let (end, slow_end) =
        ("  ORDER BY i.o;\nEND", "  ORDER BY i.o;\n  PERFORM pg_sleep(random() * 0.01);\nEND");
    place.break_function("push_messages", 1, end, slow_end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_producers_on_one_partition_lose_nothing_and_keep_their_order() {
    for slow in [false, true] {
        let place = place_with_connections().await;
        if slow {
            slow_commits(&place).await;
        }
        let history = run(place, Duration::from_secs(2)).await;
        assert_eq!(history.faults(), Vec::<String>::new());
        assert!(history.got.len() > 200, "only {}", history.got.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbered_outside_of_the_lock_messages_are_lost() {
    let mut seen = Vec::new();
    // A race needs luck to show.
    for _ in 0..10 {
        let place = place_with_connections().await;
        slow_commits(&place).await;
        let locks = "pg_advisory_xact_lock(bugle.partition_class(), u.part)";
        place.break_function("lock_partitions", 1, locks, "u.part").await;
        let faults = run(place, Duration::from_secs(3)).await.faults();
        if faults.iter().any(|fault| fault.starts_with("producer")) {
            return;
        }
        seen.push(faults);
    }
    panic!("the lock is not needed? {seen:?}");
}
