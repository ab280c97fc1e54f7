//! Who waits for what: the intentions of one pump, and the wake flags of their queues. Shared by those who wait, those who wake, and the
//! pump that looks.
//!
//! Lock order: a registry, then the seats. The seats never call back.

use crate::alert::{Alert, Event, Looked};
use crate::counters::{Counters, Why};
use crate::mode::{Mode, Setting};
use crate::number::{Bucket, Number};
use crate::options::Options;
use crate::queue::{Entry, Queue};
use crate::seats::Seats;
use crate::sync::{Mutex, Signal};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long after a find its ring may still come: the heartbeat, or a poll in shadow mode, may simply have been faster.
pub(crate) const RING_WITHIN: Duration = Duration::from_millis(500);

pub(crate) struct Registry<W, I> {
    pub(crate) options: Options,
    pub(crate) seats: Arc<Seats>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) inner: Mutex<Inner<W, I>>,
    /// Raised when the pump has something to do.
    pub(crate) changed: Signal,
}

pub(crate) struct Inner<W, I> {
    pub(crate) queues: BTreeMap<Number, Queue<W, I>>,
    /// Rows that differ from the default.
    settings: HashMap<Number, Setting>,
    next_id: u64,
    waiting: usize,
    /// Work of these was found unannounced: if no ring for it is heard in time, a wake was missed, whether or not anybody still waits.
    pub(crate) suspects: BTreeMap<Number, Suspect>,
    /// Claimed for intentions that have gone meanwhile.
    pub(crate) unclaimed: Vec<(Number, I)>,
    pub(crate) alert: Alert,
    pub(crate) closed: bool,
}

/// A wake that may have been missed.
#[derive(Clone, Copy)]
pub(crate) struct Suspect {
    /// How long its ring may still come.
    pub(crate) until: Instant,
    /// Found by a poll in shadow mode, not by the heartbeat.
    pub(crate) shadow: bool,
}

/// So many wait already that nobody else may.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(
    "{waiting} consumers wait already, the most that are allowed; try again later, or raise intentions_max"
)]
pub struct TooMany {
    /// How many wait.
    pub waiting: usize,
}

impl<W, I> Registry<W, I> {
    pub(crate) fn new(options: Options, seats: Arc<Seats>, counters: Arc<Counters>) -> Self {
        let alert = Alert::new(options.alert, options.times.alert_minimum, options.alert_empty_looks);
        let inner = Inner {
            queues: BTreeMap::new(),
            settings: HashMap::new(),
            next_id: 0,
            waiting: 0,
            suspects: BTreeMap::new(),
            unclaimed: Vec::new(),
            alert,
            closed: false,
        };
        Self { options, seats, counters, inner: Mutex::new(inner), changed: Signal::default() }
    }

    /// Registers a waiter *before* the look that it causes: arm, look, wait.
    pub(crate) fn register(
        &self,
        number: Number,
        want: W,
        most: u32,
        once: bool,
        now: Instant,
    ) -> Result<u64, TooMany> {
        let mut inner = self.inner.lock();
        if inner.waiting >= self.options.intentions_max {
            self.counters.refused_intentions.one();
            return Err(TooMany { waiting: inner.waiting });
        }
        inner.waiting += 1;
        inner.next_id += 1;
        let id = inner.next_id;
        let setting = inner.settings.get(&number).copied().unwrap_or_default();
        inner.end_alert_of_nobody(now);
        let queue = inner.queues.entry(number).or_insert_with(|| {
            warn_of(number, setting.mode);
            Queue::new(setting)
        });
        // Others wait here in vain, and what they wait for will be announced to them: he hears of it with them.
        let joins = queue.dry && queue.has_demand() && queue.setting.mode.is_rung();
        queue.entries.push_back(Entry { id, want, most, once, ready: VecDeque::new(), waker: None });
        if most > 0 && !joins {
            queue.wake(Why::Intention, now); // rule 2: otherwise a new intention always causes a look
        }
        self.recount(number, queue, now);
        drop(inner);
        self.changed.raise();
        Ok(id)
    }

    /// A waiter wants more. One that wants something already needs no look: the last one left it empty-handed, or is under way.
    pub(crate) fn add(&self, number: Number, id: u64, more: u32, now: Instant) {
        let mut inner = self.inner.lock();
        let Some(queue) = inner.queues.get_mut(&number) else { return };
        let Some(entry) = queue.entries.iter_mut().find(|e| e.id == id) else { return };
        let wanted_nothing = entry.most == 0;
        entry.most += more;
        if wanted_nothing && more > 0 {
            queue.wake(Why::Intention, now);
            self.recount(number, queue, now);
            drop(inner);
            self.changed.raise();
        }
    }

    /// A waiter goes. What was handed out to it and not taken is handed back at once.
    pub(crate) fn withdraw(&self, number: Number, id: u64, now: Instant) {
        let mut inner = self.inner.lock();
        let Some(queue) = inner.queues.get_mut(&number) else { return };
        let Some(place) = queue.entries.iter().position(|e| e.id == id) else { return };
        let gone = queue.entries.remove(place);
        self.recount(number, queue, now);
        if queue.is_over() {
            inner.queues.remove(&number);
        }
        inner.waiting -= 1;
        let untaken = gone.into_iter().flat_map(|e| e.ready).map(|item| (number, item));
        inner.unclaimed.extend(untaken);
        drop(inner);
        self.changed.raise();
    }

    /// What was handed out to a waiter; `None` when the engine has stopped.
    pub(crate) fn poll_ready(&self, number: Number, id: u64, context: &Context<'_>) -> Poll<Option<I>> {
        let mut inner = self.inner.lock();
        let closed = inner.closed;
        let entry = inner.queues.get_mut(&number).and_then(|q| q.entries.iter_mut().find(|e| e.id == id));
        let Some(entry) = entry else { return Poll::Ready(None) };
        if let Some(item) = entry.ready.pop_front() {
            return Poll::Ready(Some(item));
        }
        if closed {
            return Poll::Ready(None);
        }
        entry.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Tells the seats whether a queue's demand began or ended.
    pub(crate) fn recount(&self, number: Number, queue: &mut Queue<W, I>, now: Instant) {
        let counts = queue.has_demand() && queue.setting.mode.sits();
        if counts != queue.counted {
            queue.counted = counts;
            self.seats.demand(number.bucket(), counts, now);
        }
    }

    /// No more waiting: everybody who waits is told, and what they have not taken is handed back while there is still somebody to do it.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        let Inner { closed, queues, unclaimed, .. } = &mut *inner;
        *closed = true;
        for (number, queue) in queues {
            for entry in &mut queue.entries {
                unclaimed.extend(entry.ready.drain(..).map(|item| (*number, item)));
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
        }
        drop(inner);
        self.changed.raise();
    }

    /// Notes an event for the alert.
    pub(crate) fn note(&self, inner: &mut Inner<W, I>, event: Event, now: Instant) {
        if inner.alert.note(event, now) {
            self.counters.alerts.one();
            self.seats.changed.raise(); // the listener shows it
            if event != Event::Ring && event != Event::Timer && event != Event::Heartbeat {
                tracing::warn!(reason = ?event, "on alert: looking at short intervals");
            }
            for queue in inner.queues.values_mut().filter(|q| q.has_demand()) {
                queue.look_at(now + self.options.times.alert_interval, Why::Alert);
            }
        }
    }

    /// Notes the end of a look for the alert.
    pub(crate) fn note_look(&self, inner: &mut Inner<W, I>, looked: Looked, now: Instant) {
        if inner.alert.looked(looked, now) {
            tracing::info!("alert over");
            self.seats.changed.raise();
        }
    }
}

impl<W, I> Inner<W, I> {
    /// Only looks end an alert, and where nobody waits nobody looks.
    fn end_alert_of_nobody(&mut self, now: Instant) {
        if self.alert.is_on() && !self.queues.values().any(Queue::has_demand) {
            self.alert.nobody_waits(now);
        }
    }
}

/// What a pump does now.
pub(crate) struct State {
    /// Intentions that wait.
    pub(crate) waiting: usize,
    /// Queues whose look is under way or about to begin.
    pub(crate) looking: usize,
    pub(crate) alert: bool,
}

/// A pump, as whoever wakes it sees it.
pub(crate) trait Wake: Send + Sync {
    /// A producer rang for this queue. Does anybody here want it?
    fn ring(&self, number: Number, now: Instant) -> bool;
    /// This process wrote work into this queue.
    fn local(&self, number: Number, now: Instant);
    /// Every queue of a bucket must be looked at.
    fn wake_bucket(&self, bucket: Bucket, why: Why, now: Instant);
    /// Every queue must be looked at.
    fn wake_all(&self, why: Why, now: Instant);
    /// The fallback look (rule 10).
    fn heartbeat(&self, now: Instant);
    /// Something went wrong that concerns every queue.
    fn fault(&self, event: Event, now: Instant);
    /// The rows of all queues that differ from the default.
    fn set_modes(&self, settings: &HashMap<Number, Setting>, now: Instant);
    /// Whatever it sleeps until, and why.
    fn sleeps(&self) -> Vec<(Why, Instant)>;
    fn state(&self) -> State;
    fn close(&self);
}

impl<W: Send, I: Send> Wake for Registry<W, I> {
    fn ring(&self, number: Number, now: Instant) -> bool {
        let mut inner = self.inner.lock();
        inner.suspects.remove(&number);
        let Some(queue) = inner.queues.get_mut(&number) else { return false };
        if queue.setting.mode == Mode::Shadow {
            self.counters.shadow_rings.one();
            queue.stir(Why::Ring, now);
            return queue.has_demand();
        }
        // Rule 9: every node looks on a ring for a queue that it has demand for; without demand it ignores it.
        if !queue.has_demand() || !queue.setting.mode.is_rung() {
            return false;
        }
        queue.wake(Why::Ring, now);
        self.note(&mut inner, Event::Ring, now);
        drop(inner);
        self.changed.raise();
        true
    }

    fn local(&self, number: Number, now: Instant) {
        let mut inner = self.inner.lock();
        inner.suspects.remove(&number);
        let Some(queue) = inner.queues.get_mut(&number) else { return };
        if queue.has_demand() {
            queue.stir(Why::Local, now);
            drop(inner);
            self.changed.raise();
        }
    }

    fn wake_bucket(&self, bucket: Bucket, why: Why, now: Instant) {
        let mut inner = self.inner.lock();
        for (_, queue) in inner.queues.iter_mut().filter(|(n, _)| n.bucket() == bucket) {
            queue.stir(why, now);
        }
        drop(inner);
        self.changed.raise();
    }

    fn wake_all(&self, why: Why, now: Instant) {
        let mut inner = self.inner.lock();
        for queue in inner.queues.values_mut() {
            if why == Why::Connected {
                queue.paused_until = None; // the server answers: whoever looked while it did not need not wait for longer
            }
            queue.stir(why, now);
        }
        drop(inner);
        self.changed.raise();
    }

    fn heartbeat(&self, now: Instant) {
        let mut inner = self.inner.lock();
        for (number, queue) in inner.queues.iter_mut().filter(|(_, q)| q.setting.mode == Mode::Hybrid) {
            // Nobody rings for a node that is awake: what the heartbeat finds for it is no missed wake.
            let asleep = self.seats.slept(number.bucket());
            queue.wake(if asleep { Why::Heartbeat } else { Why::Linger }, now);
        }
        self.note(&mut inner, Event::Heartbeat, now);
        drop(inner);
        self.changed.raise();
    }

    fn fault(&self, event: Event, now: Instant) {
        let mut inner = self.inner.lock();
        self.note(&mut inner, event, now);
        for queue in inner.queues.values_mut() {
            queue.stir(Why::Alert, now);
        }
        drop(inner);
        self.changed.raise();
    }

    fn set_modes(&self, settings: &HashMap<Number, Setting>, now: Instant) {
        let mut inner = self.inner.lock();
        inner.settings.clone_from(settings);
        for (number, queue) in &mut inner.queues {
            let setting = settings.get(number).copied().unwrap_or_default();
            if setting == queue.setting {
                continue;
            }
            tracing::info!(queue = number.0, from = %queue.setting.mode, to = %setting.mode, "wake mode of a queue changed");
            queue.setting = setting;
            warn_of(*number, setting.mode);
            queue.wake(Why::Poll, now); // and what comes after the look is by the new mode
            queue.shadow.announce(now); // in the mode before, perhaps nobody was rung for
            self.recount(*number, queue, now);
        }
        drop(inner);
        self.changed.raise();
    }

    fn sleeps(&self) -> Vec<(Why, Instant)> {
        let inner = self.inner.lock();
        inner
            .queues
            .values()
            .filter(|q| q.has_demand())
            .filter_map(|q| q.timer.map(|t| (t.why, t.at)))
            .collect()
    }

    fn state(&self) -> State {
        let mut inner = self.inner.lock();
        inner.end_alert_of_nobody(Instant::now());
        let looking =
            inner.queues.values().filter(|q| q.looking || q.flag.is_some() && q.has_demand()).count();
        State { waiting: inner.waiting, looking, alert: inner.alert.is_on() }
    }

    fn close(&self) {
        Self::close(self);
    }
}

/// A queue without a fallback look depends on every ring.
fn warn_of(number: Number, mode: Mode) {
    if mode == Mode::EventDrivenOnly {
        tracing::warn!(
            queue = number.0,
            "no fallback look in mode event_driven_only: work whose ring is lost waits for the next"
        );
    }
}
