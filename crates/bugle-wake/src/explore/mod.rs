//! The shipped registry, seats, intentions and pump under shuttle, which tries many interleavings of their steps. Only what stands for
//! PostgreSQL and the listener's connection is made up here. No timer and no heartbeat helps: a lost wake-up leaves everybody
//! waiting, and shuttle reports that as a deadlock.
//!
//! Run with `cargo test -p bugle-wake --features explore explore`.

mod database;

use crate::counters::Why;
use crate::intention::Intention;
use crate::mode::{Mode, Setting};
use crate::number::{Call, Number};
use crate::options::{Options, Times};
use crate::pump::{self, Pump, Source, Timer};
use crate::registry::Registry;
use crate::round::{Answer, Ask};
use crate::seat::Errand;
use crate::seats::Seats;
use crate::wake::Wake as _;
use database::Database;
use futures_util::FutureExt as _;
use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Interleavings that each test tries: some hundreds, or as many as `BUGLE_EXPLORE_TRIES` says.
fn tries() -> usize {
    std::env::var("BUGLE_EXPLORE_TRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

const QUEUE: Number = Number(1);

/// Time does not pass here: what sleeps for a moment goes on when others have had their turn.
struct NoTime;

impl Timer for NoTime {
    async fn sleep_until(&self, at: Option<Instant>) {
        match at {
            Some(_) => yield_now().await,
            None => std::future::pending().await,
        }
    }
}

struct Rows {
    database: Arc<Database>,
    /// Lowers the flags after a look instead of before it: the mistake that this suite must find.
    late: Option<Arc<Registry<(), u32>>>,
}

impl Source for Rows {
    type Want = ();
    type Item = u32;
    type Error = Infallible;

    async fn look(&self, asks: Vec<Ask<()>>) -> Result<Vec<Answer<u32>>, Infallible> {
        yield_now().await; // on its way
        let answers = asks.iter().map(|ask| {
            let taken = self.database.claim(ask.most);
            Answer { item: (taken > 0).then_some(taken), taken, full: taken >= ask.most, ..Answer::default() }
        });
        let answers = answers.collect();
        yield_now().await; // on its way back
        if let Some(registry) = &self.late {
            registry.inner.lock().queues.values_mut().for_each(|queue| queue.flag = None);
        }
        Ok(answers)
    }

    fn is_away(error: &Infallible) -> bool {
        match *error {}
    }

    async fn hand_back(&self, _: Number, rows: u32) {
        self.database.produce(rows, true).await;
    }
}

/// One process: a pump, and in place of the listener's connection a loop over the made-up database.
struct Node {
    pump: Pump<Rows>,
    tasks: Vec<JoinHandle<()>>,
    database: Arc<Database>,
    number: usize,
}

impl Node {
    fn start(database: &Arc<Database>, number: usize, late: bool) -> Self {
        let brief = Duration::from_nanos(1);
        let times = Times {
            linger: brief,
            linger_max: brief,
            linger_poll: brief,
            linger_poll_max: brief,
            shallow: brief,
            shallow_max: brief,
            delivery_timeout: Duration::from_hours(1),
            ..Times::default()
        };
        let options = Options { times, ..Options::default() };
        let seats = Arc::new(Seats::new(options.clone()));
        let registry = Arc::new(Registry::new(options, seats.clone(), Arc::default()));
        let source = Rows { database: database.clone(), late: late.then(|| registry.clone()) };
        let tasks = vec![
            spawn(pump::run(Arc::new(source), registry.clone(), crate::Breaker::default(), Arc::new(NoTime))),
            spawn(listen(database.clone(), number, seats, registry.clone())),
        ];
        Self { pump: Pump { registry }, tasks, database: database.clone(), number }
    }

    fn wait_for(&self, most: u32) -> Intention<(), u32> {
        self.pump.once(QUEUE, (), most).unwrap()
    }

    async fn stop(self) {
        self.pump.registry.close();
        self.database.disconnect(self.number);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// What the listener's task does, without its connection.
async fn listen(database: Arc<Database>, node: usize, seats: Arc<Seats>, registry: Arc<Registry<(), u32>>) {
    seats.listening();
    registry.wake_all(Why::Connected, Instant::now());
    while let Some(calls) = database.heard(node) {
        for call in calls {
            match call {
                Call::Ring(bucket, number) => {
                    let found = registry.ring(number, Instant::now());
                    seats.rung(bucket, Instant::now(), found);
                }
                Call::Handover(bucket) => {
                    if seats.handover(bucket) {
                        registry.wake_bucket(bucket, Why::Handover, Instant::now());
                    }
                }
                Call::Control => {}
            }
        }
        for bucket in seats.surfaced(Instant::now()) {
            registry.wake_bucket(bucket, Why::Shallow, Instant::now());
        }
        match seats.next_errand(Instant::now()) {
            Some(Errand::Leave { bells, marks }) => {
                database.leave(node, !bells.is_empty()).await;
                seats.left(&bells, &marks);
            }
            Some(Errand::Sit { buckets, marked }) => {
                let seated = database.sit(node, marked[0]).await;
                for bucket in seats.seated(&[(buckets[0], seated)], Instant::now()) {
                    registry.wake_bucket(bucket, Why::Seated, Instant::now());
                }
            }
            None => {
                let mut changed = pin!(seats.changed.raised().fuse());
                let mut call = pin!(database.something_to_hear(node).fuse());
                let mut time = pin!(NoTime.sleep_until(seats.next_timer()).fuse());
                futures_util::select_biased! { () = changed => {}, () = call => {}, () = time => {} }
            }
        }
    }
}

/// Consumers on `nodes` nodes wait for one row each, producers write as many, perhaps not before a node has gone to sleep; every
/// consumer must get its row.
fn everybody_is_served(nodes: usize, consumers: usize, asleep: bool, late: bool) {
    block_on(async move {
        let database = Arc::new(Database::new(nodes));
        let fleet: Vec<_> = (0..nodes).map(|n| Node::start(&database, n, late)).collect();
        let waiting: Vec<_> = (0..consumers)
            .map(|c| {
                let intention = fleet[c % nodes].wait_for(1);
                spawn(async move { intention.next().await.unwrap() })
            })
            .collect();
        while asleep && !database.has_sentinel() {
            yield_now().await;
        }
        let producers: Vec<_> = (0..consumers)
            .map(|_| {
                let database = database.clone();
                spawn(async move { database.produce(1, true).await })
            })
            .collect();
        for producer in producers {
            producer.await.unwrap();
        }
        for consumer in waiting {
            assert_eq!(consumer.await.unwrap(), 1);
        }
        for node in fleet {
            node.stop().await;
        }
        assert_eq!(database.left(), 0);
    });
}

#[test]
fn every_consumer_of_one_node_is_served() {
    shuttle::check_random(|| everybody_is_served(1, 3, true, false), tries());
}

#[test]
fn every_consumer_of_two_nodes_is_served() {
    shuttle::check_pct(|| everybody_is_served(2, 3, false, false), tries(), 3);
}

#[test]
fn every_consumer_of_three_nodes_is_served() {
    shuttle::check_random(|| everybody_is_served(3, 3, true, false), tries());
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_flag_lowered_after_the_look_loses_a_wake() {
    // One in some hundred interleavings shows it: so many tries that it is always found, and the first ends the test.
    shuttle::check_random(|| everybody_is_served(1, 3, true, true), 40 * tries());
}

/// One consumer goes at any moment; whatever was claimed for it reaches the other, on another node.
fn one_goes(producer_fails: bool) {
    block_on(async move {
        let database = Arc::new(Database::new(2));
        let fleet = [Node::start(&database, 0, false), Node::start(&database, 1, false)];
        let (goes, stays) = (fleet[0].wait_for(1), fleet[1].wait_for(1));
        let gone = spawn(async move {
            for _ in 0..3 {
                if let Some(Some(_)) = goes.next().now_or_never() {
                    return true; // served first: it keeps its row
                }
                yield_now().await;
            }
            false
        });
        let served = spawn(async move { stays.next().await.unwrap() });
        if producer_fails {
            database.produce(1, false).await;
        }
        database.produce(1, true).await;
        if gone.await.unwrap() {
            database.produce(1, true).await;
        }
        assert_eq!(served.await.unwrap(), 1);
        for node in fleet {
            node.stop().await;
        }
    });
}

#[test]
fn what_was_claimed_for_one_who_went_reaches_another_node() {
    shuttle::check_random(|| one_goes(false), tries());
}

#[test]
fn a_producer_that_rolls_back_disturbs_nobody() {
    shuttle::check_random(|| one_goes(true), tries());
}

/// The sentinel is busy after its first row: the next row must reach the reserve (handover), whoever that is.
fn a_busy_sentinel() {
    block_on(async move {
        let database = Arc::new(Database::new(2));
        let fleet = [Node::start(&database, 0, false), Node::start(&database, 1, false)];
        let consumers: Vec<_> = fleet
            .iter()
            .map(|node| {
                let intention = node.wait_for(1);
                spawn(async move { intention.next().await.unwrap() })
            })
            .collect();
        for _ in 0..2 {
            database.produce(1, true).await;
            yield_now().await;
        }
        for consumer in consumers {
            assert_eq!(consumer.await.unwrap(), 1);
        }
        for node in fleet {
            node.stop().await;
        }
    });
}

#[test]
fn a_sentinel_that_gets_busy_hands_over() {
    shuttle::check_random(a_busy_sentinel, tries());
}

/// Two nodes are switched through modes, each at moments of its own, while rows come; the last mode is woken by rings alone.
fn modes_are_switched(modes: &'static [Mode]) {
    block_on(async move {
        const ROWS: u32 = 4;
        let database = Arc::new(Database::new(2));
        let fleet = [Node::start(&database, 0, false), Node::start(&database, 1, false)];
        let served = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for node in &fleet {
            let registry = node.pump.registry.clone();
            tasks.push(spawn(async move {
                for mode in modes {
                    for _ in 0..8 {
                        yield_now().await;
                    }
                    let setting = Setting { mode: *mode, poll: Some(Duration::from_nanos(1)) };
                    registry.set_modes(&HashMap::from([(QUEUE, setting)]), Instant::now());
                }
            }));
        }
        let consumers: Vec<_> = fleet
            .iter()
            .map(|node| {
                let (waiter, served) = (node.pump.standing(QUEUE, (), 2).unwrap(), served.clone());
                spawn(async move {
                    while let Some(taken) = waiter.next().await {
                        served.fetch_add(taken, Ordering::SeqCst);
                        waiter.add(taken);
                    }
                })
            })
            .collect();
        for _ in 0..ROWS {
            database.produce(1, true).await;
            for _ in 0..8 {
                yield_now().await;
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        while served.load(Ordering::SeqCst) < ROWS {
            yield_now().await;
        }
        for node in fleet {
            node.stop().await;
        }
        for consumer in consumers {
            consumer.await.unwrap();
        }
    });
}

#[test]
fn nothing_is_lost_when_modes_are_switched() {
    shuttle::check_random(|| modes_are_switched(&[Mode::PollingOnly, Mode::Hybrid]), tries());
    shuttle::check_random(|| modes_are_switched(&[Mode::Shadow, Mode::Hybrid]), tries());
    shuttle::check_random(
        || modes_are_switched(&[Mode::PollingOnly, Mode::Hybrid, Mode::Shadow, Mode::EventDrivenOnly]),
        tries(),
    );
}
