//! The engine of one process: its listener, its seats and its pumps.

use crate::breaker::{self, Breaker};
use crate::counters::Counters;
use crate::listener;
use crate::mode::{Mode, Setting};
use crate::number::Number;
use crate::options::Options;
use crate::pump::{self, Pump, Source, Timer};
use crate::recent::Lately;
use crate::registry::Registry;
use crate::seat::Session;
use crate::seats::{Holding, Seats};
use crate::statements::Statements;
use crate::supervise::supervise;
use crate::wake::{Found, Wake};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a node that has no more demand may take to say so.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Where a node works.
#[derive(Debug, Clone)]
pub struct Place {
    /// For everything but the listener.
    pub pool: PgPool,
    /// For the listener: a connection of its own, straight to the server.
    pub listener: PgConnectOptions,
    /// The statements for the schema in use.
    pub statements: Statements,
    /// The node's name, for people.
    pub node: String,
}

/// The engine of one process. Dropping it stops it in the background; [`Node::stop`] waits.
pub struct Node {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

type Hook = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) place: Place,
    pub(crate) seats: Arc<Seats>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: CancellationToken,
    /// How full PostgreSQL's queue of notifications was last, as the bits of a float.
    pub(crate) notify_usage: AtomicU64,
    pub(crate) breaker: Breaker,
    started: Instant,
    pumps: Mutex<Vec<Arc<dyn Wake>>>,
    hooks: Mutex<Vec<Hook>>,
    control: Mutex<Control>,
    control_changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Control {
    /// The version that was read; `None`: read it again.
    version: Option<i64>,
    modes: HashMap<Number, Setting>,
}

/// What the listener of a node is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// It listens: producers ring for this node.
    Yes,
    /// It has no connection, and tries to get one: until then the node polls.
    Away,
    /// LISTEN is switched off, impossible or useless here: the node polls.
    No,
}

/// What a node does, for people and tests.
#[derive(Debug, Clone)]
pub struct Status {
    /// Can it be rung for?
    pub listening: bool,
    /// What its listener is good for.
    pub listens: Listens,
    /// How full PostgreSQL's queue of notifications was at the last heartbeat, from 0 to 1.
    pub notify_usage: f64,
    /// What happened lately.
    pub lately: Lately,
    /// How long the database has been away; `None`: it is there, as far as is known.
    pub away_for: Option<Duration>,
    /// The seats it holds.
    pub seats: Holding,
    /// Intentions that wait.
    pub intentions: usize,
    /// Queues whose look is under way or about to begin.
    pub looking: usize,
    /// Is a pump on alert?
    pub alert: bool,
    /// Everything it sleeps until, and how long from now.
    pub sleeps: Vec<(&'static str, Duration)>,
}

impl Node {
    /// Starts the engine. It connects in the background and for ever: until it listens, its pumps poll.
    #[must_use]
    pub fn start(options: Options, place: Place) -> Self {
        let shared = Arc::new(Shared {
            seats: Arc::new(Seats::new(options.clone())),
            counters: Arc::default(),
            stop: CancellationToken::new(),
            notify_usage: AtomicU64::default(),
            breaker: Breaker::default(),
            started: Instant::now(),
            pumps: Mutex::default(),
            hooks: Mutex::default(),
            control: Mutex::default(),
            control_changes: watch::Sender::default(),
            options,
            place,
        });
        let node = Self { shared, tasks: Mutex::default() };
        let shared = node.shared.clone();
        node.spawn("listener", move || {
            let shared = shared.clone();
            async move { listener::run(&shared).await }
        });
        let shared = node.shared.clone();
        node.spawn("breaker", move || {
            let (stop, breaker, counters) =
                (shared.stop.clone(), shared.breaker.clone(), shared.counters.clone());
            let database = (*shared.place.pool.connect_options()).clone();
            let within = shared.options.times.answer_within;
            async move {
                stop.run_until_cancelled(breaker::watch(breaker, database, within, counters)).await;
            }
        });
        node
    }

    /// A pump for one kind of work.
    pub fn pump<S: Source>(&self, source: S) -> Pump<S> {
        let shared = &self.shared;
        let registry: Arc<Registry<S::Want, S::Item>> =
            Arc::new(Registry::new(shared.options.clone(), shared.seats.clone(), shared.counters.clone()));
        {
            // Together, or a change in between would be told neither way.
            let control = locked(&shared.control);
            registry.set_modes(&control.modes, Instant::now());
            locked(&shared.pumps).push(registry.clone());
        }
        if shared.stop.is_cancelled() {
            registry.close(); // nobody else will
        }
        let (source, pump) = (Arc::new(source), Pump { registry: registry.clone() });
        let breaker = shared.breaker.clone();
        self.spawn("pump", move || {
            pump::run(source.clone(), registry.clone(), breaker.clone(), Arc::new(TokioTimer))
        });
        pump
    }

    /// This process has committed work for a queue: its own waiters need not wait for the ring.
    pub fn local(&self, number: Number) {
        self.shared.each(|pump, now| pump.local(number, now));
    }

    /// Does something at every heartbeat, in the listener's task: it must not take long.
    pub fn on_heartbeat(&self, hook: impl Fn() + Send + Sync + 'static) {
        locked(&self.shared.hooks).push(Box::new(hook));
    }

    /// Changes whenever control was rung for, and whenever a ring may have been missed: for parts that act on more than modes. They ask
    /// the database what has changed; nobody has to listen or to poll for it.
    #[must_use]
    pub fn control_changes(&self) -> watch::Receiver<u64> {
        self.shared.control_changes.subscribe()
    }

    /// What is held for nobody is let go at once: peers that sleep are told. For a process that is about to end.
    pub async fn leave_unused(&self) {
        let begun = Instant::now();
        while self.shared.seats.holds_for_nobody() && begun.elapsed() < LEAVE_WITHIN {
            self.shared.seats.hurry();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Rule 12: whatever was claimed and not taken is handed back, the seats are left, the session is closed.
    pub async fn stop(&self) {
        let tasks = std::mem::take(&mut *locked(&self.tasks));
        self.shared.stop();
        let ended = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(self.shared.options.times.answer_within, ended).await;
    }

    /// Everything that was counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// What it does now.
    #[must_use]
    pub fn status(&self) -> Status {
        let (now, session) = (Instant::now(), self.shared.seats.session());
        let pumps = locked(&self.shared.pumps);
        let states: Vec<_> = pumps.iter().map(|p| p.state()).collect();
        let sleeps = pumps.iter().flat_map(|p| p.sleeps()).map(|(why, at)| (why.as_str(), at));
        let seats = self.shared.seats.next_timer().map(|at| ("seat", at));
        Status {
            listening: session == Session::Listening,
            listens: match session {
                Session::Listening => Listens::Yes,
                Session::Away => Listens::Away,
                Session::Useless => Listens::No,
            },
            notify_usage: f64::from_bits(self.shared.notify_usage.load(Ordering::Relaxed)),
            lately: self.shared.counters.recent.read(now),
            away_for: self.shared.breaker.away_for(),
            seats: self.shared.seats.held(),
            intentions: states.iter().map(|s| s.waiting).sum(),
            looking: states.iter().map(|s| s.looking).sum(),
            alert: states.iter().any(|s| s.alert),
            sleeps: sleeps.chain(seats).map(|(why, at)| (why, at.saturating_duration_since(now))).collect(),
        }
    }

    /// Its breaker: whatever a part does by itself and again and again waits for it.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.shared.breaker
    }

    /// How often its heart is to beat.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.shared.options.times.heartbeat
    }

    /// How long ago it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.shared.started.elapsed()
    }

    /// The mode that this node knows for a queue.
    #[must_use]
    pub fn mode_of(&self, number: Number) -> Mode {
        locked(&self.shared.control).modes.get(&number).copied().unwrap_or_default().mode
    }

    fn spawn<F>(&self, name: &'static str, make: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = supervise(name, self.shared.counters.clone(), make);
        locked(&self.tasks).push(tokio::spawn(task));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        self.each(|pump, _| pump.close());
        self.stop.cancel();
        self.breaker.end();
        self.each(|pump, _| pump.close()); // one that was made in between
    }

    /// Does something with every pump.
    pub(crate) fn each(&self, act: impl Fn(&dyn Wake, Instant)) {
        let now = Instant::now();
        for pump in locked(&self.pumps).iter() {
            act(&**pump, now);
        }
    }

    /// A producer rang: tells every pump.
    pub(crate) fn ring(&self, number: Number, now: Instant) -> Found {
        let found = locked(&self.pumps).iter().map(|pump| pump.ring(number, now)).max();
        found.unwrap_or(Found::Indifferent)
    }

    /// The heartbeat's look, and whoever else asked for it.
    pub(crate) fn beat(&self) {
        self.counters.heartbeats.one();
        self.counters.recent.beat(Instant::now());
        self.each(|pump, now| pump.heartbeat(now));
        for hook in locked(&self.hooks).iter() {
            hook();
        }
    }

    pub(crate) fn is_on_alert(&self) -> bool {
        locked(&self.pumps).iter().any(|p| p.state().alert)
    }

    pub(crate) fn control(&self) -> Option<i64> {
        locked(&self.control).version
    }

    pub(crate) fn forget_control(&self) {
        locked(&self.control).version = None;
    }

    pub(crate) fn set_control(&self, version: i64) {
        locked(&self.control).version = Some(version);
    }

    /// Control was read: whoever acts on it reads what concerns him.
    pub(crate) fn tell_control(&self) {
        self.control_changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(crate) fn set_modes(&self, modes: HashMap<Number, Setting>) {
        let mut control = locked(&self.control);
        self.each(|pump, now| pump.set_modes(&modes, now));
        control.modes = modes;
    }
}

struct TokioTimer;

impl Timer for TokioTimer {
    async fn sleep_until(&self, at: Option<Instant>) {
        match at {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

/// Nothing panics half-way while one of these is held.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
