//! The pump's side of the registry: what to ask, and what to do with the answer. Rules 2 to 4 of docs/wake.md.

use crate::alert::{Event, Looked};
use crate::counters::Why;
use crate::mode::Mode;
use crate::number::Number;
use crate::path::Given;
use crate::queue::{Flag, Queue};
use crate::registry::{Inner, RING_WITHIN, Registry, Suspect};
use crate::seat::Dry;
use std::time::{Duration, Instant};

/// Most queues of one look: each costs the server a lock, and whoever is rung for meanwhile waits for all of them.
const QUEUES_MAX: usize = 100;

/// One intention's part of a look.
#[derive(Debug, Clone)]
pub struct Ask<W> {
    /// The queue.
    pub number: Number,
    /// At most so much.
    pub most: u32,
    /// What the intention was registered with.
    pub want: W,
}

/// What a look brought for one ask.
#[derive(Debug)]
pub struct Answer<I> {
    /// What was claimed for it.
    pub item: Option<I>,
    /// How much that is.
    pub taken: u32,
    /// All that was asked for was there: there may be more. Otherwise the queue is empty.
    pub full: bool,
    /// How soon there will be something to look for, by the database's clock: work that becomes due, a lease that ends, rows that somebody
    /// else has locked. Zero: at once.
    pub again: Option<Duration>,
    /// Nothing is there any more for anybody, whatever he wants, and `again` says when there will be. Whoever joins those who wait in vain
    /// then needs no look of his own.
    pub dry: bool,
}

impl<I> Default for Answer<I> {
    fn default() -> Self {
        Self { item: None, taken: 0, full: false, again: None, dry: false }
    }
}

/// A look under way: which queues it is for and why, and whose asks it carries.
#[derive(Debug)]
pub(crate) struct Round {
    reasons: Vec<(Number, Flag)>,
    asks: Vec<(Number, u64)>,
}

impl<W: Clone, I> Registry<W, I> {
    /// Takes every queue that there is a reason to look at. The flags are lowered here, before the look is sent (rule 2): whatever comes from
    /// now on is remembered.
    pub(crate) fn arm(&self, now: Instant) -> Option<(Round, Vec<Ask<W>>)> {
        let mut inner = self.inner.lock();
        let mut round = Round { reasons: Vec::new(), asks: Vec::new() };
        let (mut asks, mut timers) = (Vec::new(), false);
        // Whoever was rung for does not wait for those that are looked at to make sure.
        let urgent = inner.queues.values().any(|queue| queue.is_urgent(now));
        for (number, queue) in &mut inner.queues {
            if queue.is_alone() && !asks.is_empty() || urgent && !queue.is_urgent(now) {
                continue; // the next look may be for it
            }
            let Some(reason) = queue.take_reason(now) else { continue };
            let before = asks.len();
            asks.extend(queue.asks(*number, now));
            if asks.len() == before {
                continue; // it is crowded, and will be woken when there is room
            }
            queue.looking = true;
            round.reasons.push((*number, reason));
            round.asks.extend(queue.entries.iter().filter(|e| e.asks).map(|e| (*number, e.id)));
            self.counters.causes[reason.why as usize].one();
            timers |= reason.why == Why::Timer;
            if queue.is_alone() || round.reasons.len() >= QUEUES_MAX {
                break;
            }
        }
        if asks.is_empty() {
            return None;
        }
        if timers {
            self.note(&mut inner, Event::Timer, now);
        }
        inner.looks += 1;
        self.counters.looks.one();
        Some((round, asks))
    }

    /// A look failed, and nobody knows what it did: the flags are raised again. It never leads to sleep (rule 4).
    pub(crate) fn failed(&self, round: &Round, now: Instant) {
        let mut inner = self.inner.lock();
        inner.looks = inner.looks.saturating_sub(1);
        self.counters.failed_looks.one();
        self.note_look(&mut inner, Looked::Failed, now);
        self.note(&mut inner, Event::LookFailed, now);
        for (number, _) in &round.reasons {
            if let Some(queue) = inner.queues.get_mut(number) {
                queue.looking = false;
                queue.fail(now);
            }
        }
        let has_room =
            round.asks.iter().fold(false, |any, (number, id)| inner.brought(*number, *id, 0) | any);
        if has_room {
            inner.wake_crowded(now);
        }
    }

    /// Hands out what a look brought, in the order of registration, and decides for each of its queues what comes next (rule 4).
    pub(crate) fn hand_out(&self, round: Round, answers: Vec<Answer<I>>, now: Instant) {
        let mut inner = self.inner.lock();
        inner.looks = inner.looks.saturating_sub(1);
        let mut answers = round.asks.iter().zip(answers).peekable();
        let (mut found_any, mut has_room) = (false, false);
        for (number, reason) in round.reasons {
            let (mut found, mut full, mut dry, mut again) = (false, true, true, None::<Duration>);
            while let Some(((_, id), answer)) = answers.next_if(|((n, _), _)| *n == number) {
                full &= answer.full;
                dry &= answer.dry;
                again = [again, answer.again].into_iter().flatten().min();
                has_room |= inner.brought(number, *id, answer.taken);
                if let Some(item) = answer.item {
                    found = true;
                    self.deliver(&mut inner, (number, *id), answer.taken, (item, reason.why), now);
                }
            }
            found_any |= found;
            self.after_look(&mut inner, number, reason, Outcome { found, full, dry, again }, now);
        }
        if !found_any {
            self.counters.empty_looks.one();
        }
        if has_room {
            inner.wake_crowded(now);
        }
        self.note_look(&mut inner, if found_any { Looked::Found } else { Looked::Empty }, now);
    }

    fn deliver(
        &self,
        inner: &mut Inner<W, I>,
        (number, id): (Number, u64),
        taken: u32,
        (item, why): (I, Why),
        now: Instant,
    ) {
        let queue = inner.queues.get_mut(&number).filter(|_| !inner.closed);
        match queue.and_then(|q| q.entries.iter_mut().find(|e| e.id == id)) {
            Some(entry) => {
                self.counters.hand_outs.one();
                entry.most = if entry.once { 0 } else { entry.most.saturating_sub(taken) };
                let was_open_for = entry.open_since.map_or(Duration::ZERO, |since| now.duration_since(since));
                entry.open_since = entry.open_since.filter(|_| entry.most > 0);
                entry.ready.push_back((item, Given { why, was_open_for }));
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
            None => inner.unclaimed.push((number, item)), // it went while the look was under way, or was told that there is nothing more
        }
    }

    fn after_look(
        &self,
        inner: &mut Inner<W, I>,
        number: Number,
        reason: Flag,
        outcome: Outcome,
        now: Instant,
    ) {
        let on_alert = inner.alert.is_on();
        let Some(queue) = inner.queues.get_mut(&number) else { return };
        queue.looking = false;
        queue.failed_looks = 0;
        queue.paused_until = None;
        if outcome.found {
            self.seats.found(number.bucket(), now);
            queue.empty_looks = 0;
            match reason.why {
                Why::Ring => self.note_latency(now.duration_since(reason.at), now),
                // What was announced while the look was under way may be what it found.
                Why::Heartbeat if !queue.flag.is_some_and(|flag| flag.announces()) => {
                    inner.suspects.insert(number, Suspect { until: now + RING_WITHIN, shadow: false });
                }
                Why::Poll if queue.setting.mode == Mode::Shadow && queue.shadow.is_surprised(now) => {
                    // The first of several keeps its time, or short polls would put it off for ever.
                    inner
                        .suspects
                        .entry(number)
                        .or_insert(Suspect { until: now + RING_WITHIN, shadow: true });
                }
                _ => {}
            }
        } else {
            queue.empty_looks = queue.empty_looks.saturating_add(1);
            if reason.why == Why::Ring {
                self.counters.rings_in_vain.one();
            }
        }
        self.recount(number, queue, now);
        if queue.is_over() {
            inner.queues.remove(&number);
            return;
        }
        if !queue.has_demand() {
            return; // rule 8 is the seats' business
        }
        // A look that was not full has seen everything: it may be followed by sleep although it found something.
        if outcome.full || outcome.again == Some(Duration::ZERO) {
            queue.wake(Why::More, now);
            return;
        }
        // Whoever got less than he wanted got all that was there.
        queue.entries.iter_mut().for_each(|entry| entry.crowded = false);
        // What was heard during the look is newer than what it says.
        queue.dry = outcome.dry && queue.flag.is_none();
        if on_alert {
            queue.look_at(now + self.options.times.alert_interval, Why::Alert);
        }
        self.until_next_look(number, queue, outcome.again, now);
    }

    fn note_latency(&self, latency: Duration, now: Instant) {
        self.counters.wake_latency.note(latency);
        self.counters.recent.latency(latency, now);
    }

    /// When to look again at a queue that has nothing now.
    fn until_next_look(
        &self,
        number: Number,
        queue: &mut Queue<W, I>,
        again: Option<Duration>,
        now: Instant,
    ) {
        let times = &self.options.times;
        let mode = queue.setting.mode;
        if mode.is_rung()
            && let Some(again) = again
        {
            queue.look_at(now + again, Why::Timer);
        }
        let dry = if mode.sits() { self.seats.dry(number.bucket(), now) } else { Dry::Sleep };
        if !mode.is_rung() {
            if matches!(dry, Dry::LookAt(_) | Dry::Poll) {
                queue.shadow.announce(now); // nobody rings for a node that is awake
            }
            if let Some(again) = again {
                queue.shadow.announce(now + again);
            }
            return queue.look_at(now + queue.setting.poll.unwrap_or(times.poll_interval), Why::Poll);
        }
        match dry {
            Dry::Sleep | Dry::Sitting => {}
            Dry::LookAt(at) => queue.look_at(at, Why::Linger),
            Dry::Poll => queue.look_at(now + queue.adaptive_poll(times), Why::Poll),
        }
    }

    /// What time alone brings to light: a fallback hit, a ring that nobody answered.
    pub(crate) fn tick(&self, now: Instant) {
        let mut inner = self.inner.lock();
        let hits: Vec<(Number, Suspect)> =
            inner.suspects.iter().filter(|(_, s)| s.until <= now).map(|(number, s)| (*number, *s)).collect();
        let mut overdue = 0;
        for queue in inner.queues.values_mut() {
            let timeout = self.options.times.delivery_timeout;
            if let Some(flag) = queue.flag.as_mut().filter(|f| f.is_untold_ring() && now >= f.at + timeout) {
                flag.told = true;
                overdue += 1;
            }
        }
        for (number, suspect) in hits {
            inner.suspects.remove(&number);
            if suspect.shadow {
                self.counters.shadow_misses.one();
                tracing::warn!(
                    queue = number.0,
                    "in shadow mode a poll found work that no ring had announced"
                );
                continue;
            }
            self.counters.fallback_hits.one();
            self.counters.recent.fallback_hit(now);
            tracing::warn!(
                queue = number.0,
                "fallback hit: the heartbeat found work that no ring had announced"
            );
            self.note(&mut inner, Event::FallbackHit, now);
        }
        if overdue > 0 {
            self.counters.delivery_timeouts.add(overdue);
            self.counters.recent.delivery_timeout(now);
            self.note(&mut inner, Event::DeliveryTimeout, now);
        }
    }

    /// When the pump has something to do by itself. `has_room`: may another look begin?
    pub(crate) fn next_timer(&self, has_room: bool) -> Option<Instant> {
        let inner = self.inner.lock();
        let timeout = self.options.times.delivery_timeout;
        let mut next = None;
        let mut consider = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        consider(inner.suspects.values().map(|suspect| suspect.until).min());
        for queue in inner.queues.values() {
            if has_room && !queue.looking && queue.has_demand() {
                consider(queue.next_reason());
            }
            if let Some(flag) = queue.flag.filter(Flag::is_untold_ring) {
                consider(Some(flag.at + timeout));
            }
        }
        next
    }

    /// A pump that died left looks behind that nobody will answer.
    pub(crate) fn restart(&self, now: Instant) {
        let mut inner = self.inner.lock();
        inner.looks = 0;
        for queue in inner.queues.values_mut().filter(|q| q.looking) {
            queue.looking = false;
            queue.wake(Why::Retry, now);
        }
    }
}

#[derive(Clone, Copy)]
struct Outcome {
    found: bool,
    full: bool,
    dry: bool,
    again: Option<Duration>,
}

#[cfg(all(test, not(feature = "explore")))]
#[allow(clippy::unwrap_used)] // clippy does not see that it is a test
mod tests;
