//! Who waits for what: the intentions of one pump, and the wake flags of their queues. Shared by those who wait, those who wake, and the
//! pump that looks.
//!
//! Lock order: a registry, then the seats. The seats never call back.

use crate::alert::{Alert, Event, Looked};
use crate::counters::{Counters, Why};
use crate::mode::Setting;
use crate::number::Number;
use crate::options::Options;
use crate::path::Given;
use crate::queue::{Entry, Queue};
use crate::room::Share;
use crate::seats::Seats;
use crate::sync::{Mutex, Signal};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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
    pub(crate) settings: HashMap<Number, Setting>,
    /// Those whose mode somebody has been warned of, if it is one to warn of.
    warned: BTreeSet<Number>,
    next_id: u64,
    pub(crate) waiting: usize,
    /// Looks under way.
    pub(crate) looks: usize,
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

/// What an intention is registered with.
pub(crate) struct Wish<W> {
    pub(crate) want: W,
    pub(crate) most: u32,
    pub(crate) once: bool,
    pub(crate) share: Option<Share>,
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
            warned: BTreeSet::new(),
            next_id: 0,
            waiting: 0,
            looks: 0,
            suspects: BTreeMap::new(),
            unclaimed: Vec::new(),
            alert,
            closed: false,
        };
        Self { options, seats, counters, inner: Mutex::new(inner), changed: Signal::default() }
    }

    /// Registers a waiter *before* the look that it causes: arm, look, wait.
    pub(crate) fn register(&self, number: Number, wish: Wish<W>, now: Instant) -> Result<u64, TooMany> {
        let Wish { want, most, once, share } = wish;
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
        // Once: who waits for one thing after the other makes its queue anew each time.
        if inner.warned.insert(number) {
            setting.mode.warn_of(number);
        }
        let queue = inner.queues.entry(number).or_insert_with(|| Queue::new(setting));
        // Others wait here in vain, and what they wait for will be announced to them: he hears of it with them.
        let joins = queue.dry && queue.has_demand() && queue.setting.mode.is_rung();
        queue.entries.push_back(Entry {
            id,
            want,
            most,
            once,
            asks: false,
            crowded: false,
            open_since: (most > 0).then_some(now),
            given: None,
            share,
            ready: VecDeque::new(),
            waker: None,
        });
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
            entry.open_since = Some(now);
        }
        let has_room = entry.share.as_mut().is_some_and(|share| share.free(more));
        let looks = wanted_nothing && more > 0;
        if looks {
            queue.wake(Why::Intention, now);
            self.recount(number, queue, now);
        }
        if has_room {
            inner.wake_crowded(now);
        }
        drop(inner);
        if looks || has_room {
            self.changed.raise();
        }
    }

    /// A waiter goes. What was handed out to it and not taken is handed back at once.
    pub(crate) fn withdraw(&self, number: Number, id: u64, now: Instant) {
        let mut inner = self.inner.lock();
        let Some(queue) = inner.queues.get_mut(&number) else { return };
        let Some(place) = queue.entries.iter().position(|e| e.id == id) else { return };
        let mut gone = queue.entries.remove(place);
        let has_room = gone.iter_mut().filter_map(|e| e.share.as_mut()).any(Share::leave);
        self.recount(number, queue, now);
        if queue.is_over() {
            inner.queues.remove(&number);
        }
        inner.waiting -= 1;
        let untaken = gone.into_iter().flat_map(|e| e.ready).map(|(item, _)| (number, item));
        inner.unclaimed.extend(untaken);
        if has_room {
            inner.wake_crowded(now);
        }
        drop(inner);
        self.changed.raise();
    }

    /// What was handed out to a waiter; `None` when the engine has stopped.
    pub(crate) fn poll_ready(&self, number: Number, id: u64, context: &Context<'_>) -> Poll<Option<I>> {
        let mut inner = self.inner.lock();
        let closed = inner.closed;
        let entry = inner.queues.get_mut(&number).and_then(|q| q.entries.iter_mut().find(|e| e.id == id));
        let Some(entry) = entry else { return Poll::Ready(None) };
        if let Some((item, given)) = entry.ready.pop_front() {
            entry.given = Some(given);
            return Poll::Ready(Some(item));
        }
        if closed {
            return Poll::Ready(None);
        }
        entry.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// How what a waiter took last was given to it.
    pub(crate) fn given(&self, number: Number, id: u64) -> Option<Given> {
        let inner = self.inner.lock();
        let entry = inner.queues.get(&number).and_then(|q| q.entries.iter().find(|e| e.id == id));
        entry.and_then(|entry| entry.given)
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
                unclaimed.extend(entry.ready.drain(..).map(|(item, _)| (*number, item)));
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
    /// A look brought so much for an intention. True: others may try again whom there was no room for.
    pub(crate) fn brought(&mut self, number: Number, id: u64, taken: u32) -> bool {
        let queue = self.queues.get_mut(&number);
        let entry = queue.and_then(|queue| queue.entries.iter_mut().find(|entry| entry.id == id));
        entry.and_then(|entry| entry.share.as_mut()).is_some_and(|share| share.end(taken))
    }

    /// There is room again: those that there was none for look now. One whose look is under way will look again anyway if it gets all
    /// that it asked for.
    pub(crate) fn wake_crowded(&mut self, now: Instant) {
        for queue in self
            .queues
            .values_mut()
            .filter(|queue| !queue.looking && queue.entries.iter().any(|entry| entry.crowded))
        {
            queue.wake(Why::Intention, now);
        }
    }

    /// Only looks end an alert, and where nobody waits nobody looks.
    pub(crate) fn end_alert_of_nobody(&mut self, now: Instant) {
        if self.alert.is_on() && !self.queues.values().any(Queue::has_demand) {
            self.alert.nobody_waits(now);
        }
    }
}
