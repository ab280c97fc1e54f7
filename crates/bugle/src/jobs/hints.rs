//! From where on a look has to search for what is due and for leases that end.
//!
//! While somebody holds a snapshot, entries that are gone stay in the indexes, and a search from the beginning walks over all of them. What
//! one look saw tells the next where to begin. That is not certain (a transaction that scheduled something may commit late, a lease may be
//! shorter than the others), so from time to time a look searches everything: always one after a pause, and under load as often as costs
//! little.

use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Under load everything is searched this often.
const FULL_EVERY: Duration = Duration::from_secs(1);
/// But it takes at most this part of the time.
const FULL_SHARE: u32 = 50;
/// How much earlier than what was seen the next search begins.
const MARGIN: TimeDelta = TimeDelta::seconds(1);

/// After a look that could not be quick, so many are not tried to be.
const NOT_QUICK: u32 = 8;

/// What a look is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Hint {
    /// `None`: from the beginning.
    pub(super) due_from: Option<DateTime<Utc>>,
    /// `None`: from the beginning.
    pub(super) until_from: Option<DateTime<Utc>>,
}

impl Hint {
    /// Does it leave nothing out?
    pub(super) fn is_full(self) -> bool {
        self == Self::default()
    }
}

/// What a look saw beside the jobs that it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// When the first job that is scheduled becomes due: past already if the look did not get to it.
    pub(super) next_due: Option<DateTime<Utc>>,
    /// When the first lease ends, whoever has it.
    pub(super) next_expiry: Option<DateTime<Utc>>,
}

struct Known {
    hint: Hint,
    next_full: Instant,
    /// So many looks are not tried the quick way: what is unusual lasts a while.
    not_quick: u32,
}

impl Known {
    fn new(now: Instant) -> Self {
        Self { hint: Hint::default(), next_full: now, not_quick: 0 }
    }
}

/// What is known of each queue.
#[derive(Default)]
pub(super) struct Hints(Mutex<HashMap<i32, Known>>);

impl Hints {
    pub(super) fn hint(&self, queue: i32, now: Instant) -> Hint {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&queue).filter(|known| now < known.next_full).map(|known| known.hint).unwrap_or_default()
    }

    /// Is the next look of a queue worth trying the quick way?
    pub(super) fn may_be_quick(&self, queue: i32) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get_mut(&queue).filter(|known| known.not_quick > 0) else { return true };
        known.not_quick -= 1;
        false
    }

    pub(super) fn was_quick(&self, queue: i32, quick: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(queue).or_insert_with(|| Known::new(Instant::now()));
        known.not_quick = if quick { 0 } else { NOT_QUICK };
    }

    /// Notes what a look with `hint` saw that looked at `at` by the database's clock and took from `begun` to `now`.
    pub(super) fn note(
        &self,
        queue: i32,
        hint: Hint,
        seen: Seen,
        at: DateTime<Utc>,
        (begun, now): (Instant, Instant),
    ) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(queue).or_insert(Known::new(now));
        // What is scheduled from now on is due later than now. A lease ends before those that there are only if it is a shorter one.
        known.hint = Hint {
            due_from: Some(seen.next_due.map_or(at, |due| due.min(at)) - MARGIN),
            until_from: Some(seen.next_expiry.unwrap_or(at) - MARGIN),
        };
        if hint.is_full() {
            known.next_full = now + FULL_EVERY.max((now - begun) * FULL_SHARE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Seen = Seen { next_due: None, next_expiry: None };
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_look_and_the_one_after_a_pause_search_everything() {
        let (hints, begin, at) = (Hints::default(), Instant::now(), Utc::now());
        assert!(hints.hint(1, begin).is_full());
        hints.note(1, Hint::default(), NOTHING, at, (begin, begin + MS));
        assert!(!hints.hint(1, begin + MS).is_full());
        assert!(hints.hint(2, begin + MS).is_full(), "another queue");
        assert!(hints.hint(1, begin + MS + FULL_EVERY).is_full());
    }

    #[test]
    fn what_was_left_and_what_comes_is_found() {
        let (hints, begin, at) = (Hints::default(), Instant::now(), Utc::now());
        let hour = TimeDelta::hours(1);
        for (next_due, from) in [(None, at), (Some(at + hour), at), (Some(at - hour), at - hour)] {
            let seen = Seen { next_due, next_expiry: Some(at + hour) };
            hints.note(1, Hint::default(), seen, at, (begin, begin + MS));
            let hint = hints.hint(1, begin + MS);
            assert_eq!(hint, Hint { due_from: Some(from - MARGIN), until_from: Some(at + hour - MARGIN) });
        }
    }

    #[test]
    fn searching_everything_takes_a_small_part_of_the_time() {
        let (hints, begin, at) = (Hints::default(), Instant::now(), Utc::now());
        hints.note(1, Hint::default(), NOTHING, at, (begin, begin + 100 * MS));
        assert!(!hints.hint(1, begin + 5_099 * MS).is_full());
        let hint = hints.hint(1, begin + 4_000 * MS);
        hints.note(1, hint, NOTHING, at, (begin + 4_000 * MS, begin + 4_001 * MS));
        assert!(hints.hint(1, begin + 5_100 * MS).is_full(), "looks in between do not put it off");
    }
}
