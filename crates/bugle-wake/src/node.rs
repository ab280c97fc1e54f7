//! The engine of one process: its listener, its seats and its pumps.

use crate::counters::Counters;
use crate::listener;
use crate::mode::{Mode, Setting};
use crate::number::Number;
use crate::options::Options;
use crate::pump::{self, Pump, Source, Timer};
use crate::registry::Registry;
use crate::seat::Session;
use crate::seats::{Holding, Seats};
use crate::statements::Statements;
use crate::supervise::supervise;
use crate::wake::Wake;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use std::collections::HashMap;
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

/// What a node does, for people and tests.
#[derive(Debug, Clone)]
pub struct Status {
    /// Can it be rung for?
    pub listening: bool,
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
        self.spawn("pump", move || pump::run(source.clone(), registry.clone(), Arc::new(TokioTimer)));
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
        let now = Instant::now();
        let pumps = locked(&self.shared.pumps);
        let states: Vec<_> = pumps.iter().map(|p| p.state()).collect();
        let sleeps = pumps.iter().flat_map(|p| p.sleeps()).map(|(why, at)| (why.as_str(), at));
        let seats = self.shared.seats.next_timer().map(|at| ("seat", at));
        Status {
            listening: self.shared.seats.session() == Session::Listening,
            seats: self.shared.seats.held(),
            intentions: states.iter().map(|s| s.waiting).sum(),
            looking: states.iter().map(|s| s.looking).sum(),
            alert: states.iter().any(|s| s.alert),
            sleeps: sleeps.chain(seats).map(|(why, at)| (why, at.saturating_duration_since(now))).collect(),
        }
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
        self.each(|pump, _| pump.close()); // one that was made in between
    }

    /// Does something with every pump.
    pub(crate) fn each(&self, act: impl Fn(&dyn Wake, Instant)) {
        let now = Instant::now();
        for pump in locked(&self.pumps).iter() {
            act(&**pump, now);
        }
    }

    /// Asks every pump, and tells whether one said yes.
    pub(crate) fn any(&self, ask: impl Fn(&dyn Wake) -> bool) -> bool {
        // All of them, even after a yes.
        locked(&self.pumps).iter().filter(|pump| ask(&***pump)).count() > 0
    }

    /// The heartbeat's look, and whoever else asked for it.
    pub(crate) fn beat(&self) {
        self.counters.heartbeats.one();
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
