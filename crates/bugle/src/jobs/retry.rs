//! When to try again.

use std::time::Duration;

/// Exponential backoff with jitter: `base`, twice that, four times that, up to `max`; each time a random part of it is taken off, so
/// that jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The wait after the first failed attempt.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
    /// How much of the wait is random: 0 = none, 1 = all of it.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_mins(15), jitter: 0.2 }
    }
}

impl Backoff {
    /// The wait after failed attempt number `attempt`, counted from 1.
    #[must_use]
    pub fn after(&self, attempt: u16) -> Duration {
        let doublings = u32::from(attempt.saturating_sub(1)).min(31);
        let whole = self.base.saturating_mul(1 << doublings).min(self.max);
        let jitter = if self.jitter.is_nan() { 0.0 } else { self.jitter.clamp(0.0, 1.0) };
        whole.mul_f64(1.0 - jitter * rand::random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(10), jitter: 0.0 };
        let waits: Vec<u64> = (1..=6).map(|n| backoff.after(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.after(u16::MAX).as_secs(), 10);
    }

    #[test]
    fn jitter_that_is_no_number_is_none() {
        let backoff = Backoff { jitter: f64::NAN, ..Backoff::default() };
        assert_eq!(backoff.after(1), backoff.base);
    }

    #[test]
    fn jitter_only_shortens() {
        let backoff = Backoff::default();
        for attempt in 1..=40 {
            let whole = Backoff { jitter: 0.0, ..backoff }.after(attempt);
            let wait = backoff.after(attempt);
            assert!(wait <= whole && wait >= whole.mul_f64(0.79), "attempt {attempt}: {wait:?} of {whole:?}");
        }
    }
}
