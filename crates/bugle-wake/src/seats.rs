//! What this node holds of each bucket: the bell, the mark or nothing. The rules 4 to 8, 10 and 11 of docs/wake.md live here.
//!
//! The invariant: *a node that sleeps with demand holds the bell, or is marked while a live peer holds the bell, or has a handover on
//! its way; and it has looked since that became true.* Hence every function that changes a seat returns the buckets that must look again,
//! and the listener wakes them.
//!
//! The seat belongs to the node and bucket, not to a pump: a session's locks do not refuse itself.

use crate::number::Bucket;
use crate::options::Options;
use crate::seat::{Dry, Errand, Held, Seat, Seated, Session};
use crate::sync::{Mutex, Signal};
use crate::wake::Found;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The seats of a node. The pumps say what they need, the listener's task does it.
pub(crate) struct Seats {
    options: Options,
    inner: Mutex<Inner>,
    /// Raised when the listener has something to do.
    pub(crate) changed: Signal,
}

struct Inner {
    session: Session,
    seats: BTreeMap<Bucket, Seat>,
    /// Seated when the heart last beat: work that came before was announced.
    slept: BTreeSet<Bucket>,
    /// Bells that were lost with the session, or let go without a word: whoever is marked must be told (rule 11).
    owed: BTreeSet<Bucket>,
}

impl Inner {
    fn leave_all(&mut self) {
        for seat in self.seats.values_mut() {
            seat.let_go = seat.held != Held::Nothing;
            seat.sit = false;
        }
    }
}

/// What a node holds, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// Buckets of which it is the sentinel.
    pub sentinel: Vec<i32>,
    /// Buckets of which it is a reserve.
    pub reserve: Vec<i32>,
}

impl Seats {
    pub(crate) fn new(options: Options) -> Self {
        let (seats, slept, owed) = Default::default();
        let inner = Inner { session: Session::Away, seats, slept, owed };
        Self { options, inner: Mutex::new(inner), changed: Signal::default() }
    }

    /// A queue of this bucket has its first waiter, or lost its last.
    pub(crate) fn demand(&self, bucket: Bucket, begins: bool, now: Instant) {
        let mut inner = self.inner.lock();
        let seat = inner.seats.entry(bucket).or_default();
        if begins {
            seat.demand += 1;
            seat.empty_since = None;
            return;
        }
        seat.demand = seat.demand.saturating_sub(1);
        if seat.demand == 0 {
            seat.sit = false;
            seat.shallow_until = None;
            if seat.held != Held::Nothing {
                seat.empty_since = Some(now);
                drop(inner);
                self.changed.raise();
            }
        }
    }

    /// Rule 4: a look found nothing more. May the pump sleep?
    pub(crate) fn dry(&self, bucket: Bucket, now: Instant) -> Dry {
        let mut inner = self.inner.lock();
        if inner.session != Session::Listening {
            return Dry::Poll;
        }
        let seat = inner.seats.entry(bucket).or_default();
        if seat.is_seated() {
            return Dry::Sleep;
        }
        if let Some(at) = seat.pace.next_poll(now, &self.options.times) {
            return Dry::LookAt(at);
        }
        if seat.shallow_until.is_none() && !seat.sit {
            seat.sit = true;
            drop(inner);
            self.changed.raise();
        }
        Dry::Sitting
    }

    /// A look found work in this bucket.
    pub(crate) fn found(&self, bucket: Bucket, now: Instant) {
        if let Some(seat) = self.inner.lock().seats.get_mut(&bucket) {
            seat.pace.found(now, &self.options.times);
        }
    }

    /// A producer rang. When rings come fast the sentinel lets go (rule 8): the others will hear of it. True: then every queue of the bucket
    /// must look, or those that were not rung for would sleep on without the bell.
    pub(crate) fn rung(&self, bucket: Bucket, now: Instant, found: Found) -> bool {
        let mut inner = self.inner.lock();
        let Some(seat) = inner.seats.get_mut(&bucket) else { return false };
        let fast = seat.held == Held::Bell
            && !seat.let_go
            && seat.pace.ring(now, found, self.options.fast_rings, &self.options.times);
        if fast {
            seat.let_go = true;
            drop(inner);
            self.changed.raise();
        }
        fast
    }

    /// A sleeper let go of the bell, or took it (rule 6): a reserve sits again. True: whoever waits must look.
    ///
    /// The answer to a sit is always applied before the notifications that came with it, so a handover that was heard since the question
    /// was sent makes that answer void (rule 5).
    pub(crate) fn handover(&self, bucket: Bucket) -> bool {
        let mut inner = self.inner.lock();
        let Some(seat) = inner.seats.get_mut(&bucket) else { return false };
        if seat.held == (Held::Mark { covered: true }) {
            seat.held = Held::Mark { covered: false };
        }
        seat.demand > 0
    }

    /// Rule 10: every reserve sits again. A mark that is kept for nobody covers whoever comes next no longer either.
    pub(crate) fn heartbeat(&self) {
        let mut inner = self.inner.lock();
        inner.slept = inner.seats.iter().filter(|(_, s)| s.is_seated()).map(|(bucket, _)| *bucket).collect();
        if inner.session != Session::Listening {
            return;
        }
        for seat in inner.seats.values_mut() {
            if let Held::Mark { .. } = seat.held {
                seat.held = Held::Mark { covered: false };
                seat.sit = seat.demand > 0;
            }
        }
    }

    /// Was it asleep when the heart last beat?
    pub(crate) fn slept(&self, bucket: Bucket) -> bool {
        self.inner.lock().slept.contains(&bucket)
    }

    /// The next statement for the listener session.
    pub(crate) fn next_errand(&self, now: Instant) -> Option<Errand> {
        let mut inner = self.inner.lock();
        let kept = self.options.times.linger;
        let gone = |seat: &Seat| seat.empty_since.is_some_and(|at| now >= at + kept);
        let (mut bells, mut marks) = (Vec::new(), Vec::new());
        for (bucket, seat) in &mut inner.seats {
            if !seat.let_go && !gone(seat) {
                continue;
            }
            match seat.held {
                Held::Bell => bells.push(*bucket),
                Held::Mark { .. } => marks.push(*bucket),
                Held::Nothing => {}
            }
            // From here on nobody may rely on it; whoever comes meanwhile sits anew.
            seat.let_go = seat.held != Held::Nothing;
            seat.empty_since = None;
        }
        if !bells.is_empty() || !marks.is_empty() {
            return Some(Errand::Leave { bells, marks });
        }
        let mut wanted: Vec<_> = inner.seats.iter_mut().filter(|(_, s)| s.sit && s.demand > 0).collect();
        if wanted.is_empty() {
            return None;
        }
        for (_, seat) in &mut wanted {
            seat.asked = true;
        }
        let marked = wanted.iter().map(|(_, s)| matches!(s.held, Held::Mark { .. })).collect();
        Some(Errand::Sit { buckets: wanted.into_iter().map(|(bucket, _)| *bucket).collect(), marked })
    }

    /// Nothing is held of these any more.
    pub(crate) fn left(&self, bells: &[Bucket], marks: &[Bucket]) {
        let mut inner = self.inner.lock();
        for bucket in bells.iter().chain(marks) {
            if let Some(seat) = inner.seats.get_mut(bucket) {
                seat.held = Held::Nothing;
                seat.let_go = false;
                seat.empty_since = None; // set again if the demand came and went meanwhile
            }
        }
    }

    /// The answers to a sit. Returns the buckets that must be looked at once more (rule 5).
    pub(crate) fn seated(&self, answers: &[(Bucket, Seated)], now: Instant) -> Vec<Bucket> {
        let mut inner = self.inner.lock();
        let mut look = Vec::new();
        for (bucket, seated) in answers {
            let Some(seat) = inner.seats.get_mut(bucket) else { continue };
            seat.sit = false;
            seat.asked = false;
            seat.held = match seated {
                Seated::Bell => Held::Bell,
                Seated::Reserve => Held::Mark { covered: true },
                Seated::Shallow => Held::Nothing,
            };
            if *seated == Seated::Shallow {
                let times = &self.options.times;
                let most = seat.shallow.min(times.shallow_max).max(times.shallow); // in whatever order the options stand
                // Random: two nodes in step would refuse each other for ever.
                seat.shallow_until = Some(now + most.mul_f64(rand::random_range(0.5..1.5)));
                seat.shallow = most * 2;
                continue;
            }
            seat.shallow = Duration::ZERO;
            if seat.demand == 0 {
                seat.empty_since = Some(now);
            }
            look.push(*bucket);
        }
        look
    }

    /// The shallow sleeps that are over: those buckets must be looked at.
    pub(crate) fn surfaced(&self, now: Instant) -> Vec<Bucket> {
        let mut inner = self.inner.lock();
        let mut look = Vec::new();
        for (bucket, seat) in &mut inner.seats {
            if seat.shallow_until.is_some_and(|at| at <= now) {
                seat.shallow_until = None;
                look.push(*bucket);
            }
        }
        look
    }

    /// When the listener has something to do by itself.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let kept = self.options.times.linger;
        let inner = self.inner.lock();
        let times = inner.seats.values().flat_map(|s| [s.shallow_until, s.empty_since.map(|at| at + kept)]);
        times.flatten().min()
    }

    /// The session is gone, and with it every lock (rule 11).
    pub(crate) fn lost(&self, session: Session) {
        let mut inner = self.inner.lock();
        inner.session = session;
        inner.slept.clear();
        let Inner { seats, owed, .. } = &mut *inner;
        for (bucket, seat) in seats {
            // A sit whose answer was lost may have been granted, and a peer may have relied on it.
            if seat.held == Held::Bell || std::mem::take(&mut seat.asked) {
                owed.insert(*bucket);
            }
            seat.held = Held::Nothing;
            seat.let_go = false;
            seat.sit = false;
            seat.shallow_until = None;
            seat.empty_since = None;
        }
    }

    /// LISTEN is committed. Returns the buckets whose reserves must be told (rule 11).
    pub(crate) fn listening(&self) -> Vec<Bucket> {
        let mut inner = self.inner.lock();
        inner.session = Session::Listening;
        drop(inner);
        self.owed()
    }

    /// The buckets whose reserves must be told. Whoever asks tells them, or owes them again.
    pub(crate) fn owed(&self) -> Vec<Bucket> {
        std::mem::take(&mut self.inner.lock().owed).into_iter().collect()
    }

    /// They could not be told.
    pub(crate) fn owe(&self, buckets: Vec<Bucket>) {
        self.inner.lock().owed.extend(buckets);
    }

    pub(crate) fn session(&self) -> Session {
        self.inner.lock().session
    }

    /// Nobody can be rung for here any more, or again: leaves everything, or lets the pumps sit again.
    pub(crate) fn set_useless(&self, useless: bool) {
        let mut inner = self.inner.lock();
        inner.session = if useless { Session::Useless } else { Session::Listening };
        if useless {
            inner.leave_all();
        }
    }

    /// Rule 12: everything is left. From here on nobody sits: a seat taken by a look that ends now would go with the session, and its
    /// handover would never be rung.
    pub(crate) fn leave_all(&self) {
        let mut inner = self.inner.lock();
        inner.session = Session::Away;
        inner.leave_all();
        drop(inner);
        self.changed.raise();
    }

    /// Whatever is held for nobody is left at the next turn, not after a while.
    pub(crate) fn hurry(&self) {
        let kept = self.options.times.linger;
        let mut inner = self.inner.lock();
        for seat in inner.seats.values_mut() {
            if let Some(at) = &mut seat.empty_since {
                *at = at.checked_sub(kept).unwrap_or(*at);
            }
        }
        drop(inner);
        self.changed.raise();
    }

    /// Is anything held for nobody, or about to be?
    pub(crate) fn holds_for_nobody(&self) -> bool {
        self.inner.lock().seats.values().any(|s| s.demand == 0 && (s.held != Held::Nothing || s.asked))
    }

    /// What is held now.
    pub(crate) fn held(&self) -> Holding {
        let inner = self.inner.lock();
        let of = |wanted: fn(&Held) -> bool| {
            inner.seats.iter().filter(|(_, s)| wanted(&s.held)).map(|(b, _)| b.0).collect()
        };
        Holding { sentinel: of(|h| *h == Held::Bell), reserve: of(|h| matches!(h, Held::Mark { .. })) }
    }
}

#[cfg(all(test, not(feature = "explore")))]
mod tests {
    use super::*;
    use crate::options::Times;

    const BUCKET: Bucket = Bucket(1);

    /// Seats of a node that listens, with somebody waiting who has asked for a seat.
    fn asked(times: Times) -> (Seats, Instant) {
        let (seats, now) = (Seats::new(Options { times, ..Options::default() }), Instant::now());
        seats.listening();
        seats.demand(BUCKET, true, now);
        assert_eq!(seats.dry(BUCKET, now), Dry::Sitting);
        let sit = Errand::Sit { buckets: vec![BUCKET], marked: vec![false] };
        assert_eq!(seats.next_errand(now), Some(sit));
        (seats, now)
    }

    #[test]
    fn a_shallow_sleep_longer_than_its_longest_is_as_long_as_was_said() {
        let shallow = Duration::from_secs(1);
        let (seats, now) = asked(Times { shallow, ..Times::default() });
        seats.seated(&[(BUCKET, Seated::Shallow)], now);
        assert!(seats.next_timer().is_some_and(|at| at >= now + shallow / 2));
    }

    #[test]
    fn a_process_that_is_about_to_end_waits_for_a_seat_that_is_being_taken_for_nobody() {
        let (seats, now) = asked(Times::default());
        seats.demand(BUCKET, false, now);
        assert!(seats.holds_for_nobody(), "the bell may be granted already");
        seats.seated(&[(BUCKET, Seated::Bell)], now);
        assert!(seats.holds_for_nobody());
        seats.hurry();
        assert_eq!(seats.next_errand(now), Some(Errand::Leave { bells: vec![BUCKET], marks: vec![] }));
        seats.left(&[BUCKET], &[]);
        assert!(!seats.holds_for_nobody());
    }

    #[test]
    fn a_mark_kept_for_nobody_covers_nobody_after_a_handover_that_may_have_been_lost() {
        let (seats, now) = asked(Times::default());
        seats.seated(&[(BUCKET, Seated::Reserve)], now);
        seats.demand(BUCKET, false, now);
        seats.heartbeat(); // also what is done about notifications that were not read
        seats.demand(BUCKET, true, now);
        assert_eq!(seats.dry(BUCKET, now), Dry::Sitting, "it must sit again");
    }
}
