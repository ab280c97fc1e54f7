//! When to keep the bell and when to let go. At a low rate every push may ring: it is cheap, and a wake costs one look and nothing else.
//! When rings come fast the node stays awake at short polls instead, and nobody rings for it.

use crate::options::Times;
use crate::wake::Found;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time between two looks of a node that lingers because of others: fast rings for queues of its bucket that it does not want.
/// It lets go for the producers' sake, and its own queues are as idle as before.
const FOREIGN_POLL: Duration = Duration::from_millis(20);

/// Rings that were answered before the next one came are fast only if so many times as many came in the same time: whoever is at rest is
/// well served by them, but each costs its producer something.
const AT_REST: u32 = 5;

/// The pace of one bucket.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The newest rings that came before the last was answered.
    rings: VecDeque<Instant>,
    /// The newest of all.
    all: VecDeque<Instant>,
    /// One of them was for a queue that somebody here wants.
    wanted: bool,
    /// Awake until then, unless work is found.
    awake_until: Option<Instant>,
    /// The linger now: doubles while sleeps keep being ended by fast rings.
    linger: Duration,
    /// When the last linger ended.
    slept_at: Option<Instant>,
    /// The time to the next look while lingering.
    poll: Duration,
}

impl Pace {
    /// Notes a ring for a bucket whose bell the node holds. True: they come fast, let go and linger.
    pub(crate) fn ring(&mut self, now: Instant, found: Found, fast_rings: usize, times: &Times) -> bool {
        forget(&mut self.rings, now, times.linger);
        forget(&mut self.all, now, times.linger / AT_REST);
        let is_first = self.rings.is_empty() && self.all.is_empty();
        self.wanted = found != Found::Indifferent || (self.wanted && !is_first);
        self.all.push_back(now);
        if found.is_fast() {
            self.rings.push_back(now);
        }
        if self.rings.len() < fast_rings && self.all.len() < fast_rings {
            return false;
        }
        self.rings.clear();
        self.all.clear();
        let soon = self.slept_at.is_some_and(|at| now.duration_since(at) < self.linger + times.linger);
        self.linger = if soon { (self.linger * 2).min(times.linger_max) } else { times.linger };
        self.awake_until = Some(now + self.linger);
        self.poll = if self.wanted { times.linger_poll } else { FOREIGN_POLL };
        true
    }

    /// Work was found: while it keeps coming, the linger does not end.
    pub(crate) fn found(&mut self, now: Instant, times: &Times) {
        if let Some(until) = &mut self.awake_until {
            *until = now + self.linger;
            self.wanted = true;
            self.poll = times.linger_poll;
        }
    }

    /// Nothing was found: when to look again while lingering; `None` = the linger is over or there was none, sit.
    pub(crate) fn next_poll(&mut self, now: Instant, times: &Times) -> Option<Instant> {
        let until = self.awake_until?;
        if now >= until {
            self.awake_until = None;
            self.slept_at = Some(now);
            return None;
        }
        let at = now + self.poll;
        self.poll = if self.wanted { (self.poll * 2).min(times.linger_poll_max) } else { FOREIGN_POLL };
        Some(at)
    }
}

/// Older ones do not count, and are not kept however many are asked for.
fn forget(rings: &mut VecDeque<Instant>, now: Instant, after: Duration) {
    while rings.front().is_some_and(|first| now.duration_since(*first) > after) {
        rings.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Found::{AtRest, Busy, Indifferent};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn slow_rings_keep_the_bell() {
        let (mut pace, times, begin) = (Pace::default(), Times::default(), Instant::now());
        for i in 0..1000 {
            assert!(!pace.ring(begin + ms(100) * i, Busy, 8, &times));
        }
        assert_eq!(pace.next_poll(begin + ms(100_000), &times), None);
    }

    #[test]
    fn rings_that_are_answered_before_the_next_keep_the_bell_unless_they_come_five_times_as_fast() {
        let (mut pace, times, begin) = (Pace::default(), Times::default(), Instant::now());
        for i in 0..1000 {
            assert!(!pace.ring(begin + ms(2) * i, AtRest, 8, &times));
        }
        assert!((0..8).any(|i| pace.ring(begin + ms(3000 + i), AtRest, 8, &times)));
    }

    #[test]
    fn rings_are_not_remembered_for_ever() {
        let (mut pace, times, begin) = (Pace::default(), Times::default(), Instant::now());
        for i in 0..1000 {
            assert!(!pace.ring(begin + ms(10) * i, Busy, usize::MAX, &times));
        }
        assert!(pace.rings.len() < 10, "{}", pace.rings.len());
    }

    #[test]
    fn fast_rings_let_go_and_the_node_lingers_while_work_comes() {
        let (mut pace, times, begin) = (Pace::default(), Times::default(), Instant::now());
        let fast = (0..8).map(|i| pace.ring(begin + ms(i), Busy, 8, &times)).collect::<Vec<_>>();
        assert_eq!(fast, [false, false, false, false, false, false, false, true]);
        let at = begin + ms(40);
        assert_eq!(pace.next_poll(at, &times), Some(at + times.linger_poll));
        assert_eq!(
            pace.next_poll(at, &times),
            Some(at + 2 * times.linger_poll),
            "slower when nothing is found"
        );
        pace.found(begin + ms(50), &times);
        let at = begin + ms(80);
        assert_eq!(
            pace.next_poll(at, &times),
            Some(at + times.linger_poll),
            "found: quick again, and longer"
        );
        assert_eq!(pace.next_poll(begin + ms(101), &times), None, "nothing came for a whole linger");
    }

    #[test]
    fn rings_for_others_make_it_let_go_but_not_look_all_the_time() {
        let (mut pace, times, now) = (Pace::default(), Times::default(), Instant::now());
        let fast = (0..8).any(|_| pace.ring(now, Indifferent, 8, &times));
        assert!(fast, "producers must not ring for ever");
        assert_eq!(pace.next_poll(now, &times), Some(now + FOREIGN_POLL));
        assert_eq!(pace.next_poll(now, &times), Some(now + FOREIGN_POLL));
        pace.found(now, &times);
        assert_eq!(
            pace.next_poll(now, &times),
            Some(now + times.linger_poll),
            "its own work is another matter"
        );
    }

    #[test]
    fn the_linger_doubles_while_sleeps_are_ended_by_fast_rings() {
        let (mut pace, times, mut now) = (Pace::default(), Times::default(), Instant::now());
        let mut lingers = Vec::new();
        for _ in 0..7 {
            for _ in 0..8 {
                pace.ring(now, Busy, 8, &times);
            }
            lingers.push(pace.linger.as_millis());
            now += pace.linger;
            assert_eq!(pace.next_poll(now, &times), None);
        }
        assert_eq!(lingers, [50, 100, 200, 400, 800, 1000, 1000]);
        now += Duration::from_secs(10);
        for _ in 0..8 {
            pace.ring(now, Busy, 8, &times);
        }
        assert_eq!(pace.linger, times.linger, "after a long sleep it begins anew");
    }
}
