//! A pump, as whoever wakes it sees it: the listener, the heartbeat, this process's own writes.

use crate::alert::Event;
use crate::counters::Why;
use crate::mode::{Mode, Setting};
use crate::number::{Bucket, Number};
use crate::registry::Registry;
use std::collections::HashMap;
use std::time::Instant;

/// What a pump does now.
pub(crate) struct State {
    /// Intentions that wait.
    pub(crate) waiting: usize,
    /// Queues whose look is under way or about to begin.
    pub(crate) looking: usize,
    pub(crate) alert: bool,
}

/// How a ring found a node: what the last of these says of one of its pumps is true of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    /// Nobody here wants that queue.
    Indifferent,
    /// Somebody wants that queue, and no look was under way.
    AtRest,
    /// Somebody wants that queue, and the pump was still looking for what came before.
    Busy,
}

impl Found {
    /// Does such a ring say that rings come too fast? One that nobody needs does, and one that comes before the last was answered.
    pub(crate) fn is_fast(self) -> bool {
        self != Self::AtRest
    }
}

/// A pump, as whoever wakes it sees it.
pub(crate) trait Wake: Send + Sync {
    /// A producer rang for this queue.
    fn ring(&self, number: Number, now: Instant) -> Found;
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
    /// Somebody has ordered something: until now it may have kept everybody from what was there.
    fn reopen(&self, now: Instant);
    /// The rows of all queues that differ from the default.
    fn set_modes(&self, settings: &HashMap<Number, Setting>, now: Instant);
    /// Whatever it sleeps until, and why.
    fn sleeps(&self) -> Vec<(Why, Instant)>;
    fn state(&self) -> State;
    fn close(&self);
}

impl<W: Send, I: Send> Wake for Registry<W, I> {
    fn ring(&self, number: Number, now: Instant) -> Found {
        let mut inner = self.inner.lock();
        inner.suspects.remove(&number);
        let looks = inner.looks > 0;
        let Some(queue) = inner.queues.get_mut(&number) else { return Found::Indifferent };
        if queue.setting.mode == Mode::Shadow {
            self.counters.shadow_rings.one();
            queue.stir(Why::Ring, now);
            // No look answers it.
            return if queue.has_demand() { Found::Busy } else { Found::Indifferent };
        }
        // Rule 9: every node looks on a ring for a queue that it has demand for; without demand it ignores it.
        if !queue.has_demand() || !queue.setting.mode.is_rung() {
            return Found::Indifferent;
        }
        let busy = looks || queue.flag.is_some();
        queue.wake(Why::Ring, now);
        self.note(&mut inner, Event::Ring, now);
        drop(inner);
        self.changed.raise();
        if busy { Found::Busy } else { Found::AtRest }
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
                queue.reopen(now);
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

    fn reopen(&self, now: Instant) {
        self.inner.lock().queues.values_mut().for_each(|queue| queue.reopen(now));
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
            setting.mode.warn_of(*number);
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
