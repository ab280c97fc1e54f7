//! What happened lately: a counter that only grows does not say whether all is well now.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a latency counts as recent.
const RECENT: Duration = Duration::from_mins(1);
/// So many are remembered at most: the newest.
const LATENCIES_MAX: usize = 256;

/// When things last happened. Written at rare moments, and at most once for a look that a ring caused.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    heartbeat: Option<Instant>,
    fallback_hit: Option<Instant>,
    delivery_timeout: Option<Instant>,
    latencies: VecDeque<(Instant, Duration)>,
}

/// How long ago things last happened in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Lately {
    /// Its last heartbeat; `None`: none yet.
    pub heartbeat: Option<Duration>,
    /// The last work that a heartbeat found and no wake had announced.
    pub fallback_hit: Option<Duration>,
    /// The last ring for which no look began in time.
    pub delivery_timeout: Option<Duration>,
    /// Of the last minute: the longest time from a ring heard to the hand-out of what it announced; `None`: no ring led to a hand-out.
    pub latency_max: Option<Duration>,
}

impl Recent {
    pub(crate) fn beat(&self, now: Instant) {
        self.inner().heartbeat = Some(now);
    }

    pub(crate) fn fallback_hit(&self, now: Instant) {
        self.inner().fallback_hit = Some(now);
    }

    pub(crate) fn delivery_timeout(&self, now: Instant) {
        self.inner().delivery_timeout = Some(now);
    }

    pub(crate) fn latency(&self, latency: Duration, now: Instant) {
        let mut inner = self.inner();
        if inner.latencies.len() >= LATENCIES_MAX {
            inner.latencies.pop_front();
        }
        inner.latencies.push_back((now, latency));
    }

    pub(crate) fn read(&self, now: Instant) -> Lately {
        let inner = self.inner();
        let ago = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let recent = inner.latencies.iter().filter(|(at, _)| now.saturating_duration_since(*at) <= RECENT);
        Lately {
            heartbeat: ago(inner.heartbeat),
            fallback_hit: ago(inner.fallback_hit),
            delivery_timeout: ago(inner.delivery_timeout),
            latency_max: recent.map(|(_, latency)| *latency).max(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_lately_counts() {
        let (recent, begun) = (Recent::default(), Instant::now());
        assert_eq!(recent.read(begun), Lately::default());
        recent.latency(Duration::from_secs(9), begun);
        recent.latency(Duration::from_millis(2), begun + RECENT);
        recent.fallback_hit(begun);
        let soon = recent.read(begun + RECENT);
        assert_eq!(soon.latency_max, Some(Duration::from_secs(9)));
        let later = recent.read(begun + RECENT * 2);
        assert_eq!(later.latency_max, Some(Duration::from_millis(2)));
        assert_eq!(later.fallback_hit, Some(RECENT * 2));
        for _ in 0..LATENCIES_MAX * 2 {
            recent.latency(Duration::ZERO, begun + RECENT);
        }
        assert_eq!(recent.inner().latencies.len(), LATENCIES_MAX);
    }
}
