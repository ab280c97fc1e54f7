//! When to try again.

use crate::Error;
use crate::limits::{ATTEMPTS_MAX, DURATION_MAX};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;

/// How long a job waits for its next attempt after a failed one, and whether there is a next one.
///
/// ```
/// use bugle::jobs::Backoff;
/// use std::time::Duration;
///
/// let waits = [0, 30, 300].map(Duration::from_secs);
/// let rule = Backoff::table(waits); // at once, after 30 s, after 5 min: three attempts, then dead
/// assert_eq!(rule.after(1), Some(waits[1]));
/// assert_eq!(rule.after(3), None);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Backoff {
    /// `base`, twice that, four times that, up to `max`; each time a random part of it is taken off, so that jobs that failed together do
    /// not come back together. Attempts end with the job's own maximum.
    Exponential {
        /// The wait after the first failed attempt.
        base: Duration,
        /// The longest wait.
        max: Duration,
        /// How much of the wait is random: 0 = none, 1 = all of it.
        jitter: f64,
    },
    /// The wait before each attempt. After as many attempts the job is dead, whatever its own maximum. The first is kept by an enqueue
    /// with this rule; a worker's rule comes too late for it.
    Table(Vec<Duration>),
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_mins(15))
    }
}

impl Backoff {
    /// [`Backoff::Exponential`], a fifth of each wait random.
    #[must_use]
    pub fn exponential(base: Duration, max: Duration) -> Self {
        Self::Exponential { base, max, jitter: 0.2 }
    }

    /// [`Backoff::Table`]: the wait before each attempt, the first one included.
    #[must_use]
    pub fn table(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self::Table(waits.into_iter().collect())
    }

    /// The wait after failed attempt number `attempt`, counted from 1; `None`: that was the last one.
    #[must_use]
    pub fn after(&self, attempt: u16) -> Option<Duration> {
        match self {
            Self::Exponential { base, max, jitter } => {
                let doublings = u32::from(attempt.saturating_sub(1)).min(31);
                let whole = base.saturating_mul(1 << doublings).min(*max);
                let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
                Some(whole.mul_f64(1.0 - jitter * rand::random::<f64>()))
            }
            Self::Table(waits) => waits.get(usize::from(attempt)).copied(),
        }
    }

    /// The wait before the first attempt.
    pub(super) fn first(&self) -> Duration {
        match self {
            Self::Exponential { .. } => Duration::ZERO,
            Self::Table(waits) => waits.first().copied().unwrap_or_default(),
        }
    }

    /// How many attempts it allows; `None`: it does not say.
    pub(super) fn attempts(&self) -> Option<u16> {
        match self {
            Self::Exponential { .. } => None,
            Self::Table(waits) => Some(u16::try_from(waits.len()).unwrap_or(u16::MAX)),
        }
    }

    /// What is kept with a job that has a rule of its own.
    pub(super) fn to_extra(&self) -> Result<Box<RawValue>, Error> {
        let refused = |fault: String| Error::Invalid {
            what: "retry rule",
            fault,
            next: "use waits of at most 100 years, and 1 to 100 of them in a table",
        };
        let waits = match self {
            Self::Table(waits) if waits.is_empty() || waits.len() > TABLE_MAX => {
                return Err(refused(format!("has {} waits", waits.len())));
            }
            Self::Table(waits) => waits,
            Self::Exponential { base, max, .. } => &vec![*base, *max],
        };
        if let Some(long) = waits.iter().find(|wait| **wait > DURATION_MAX) {
            return Err(refused(format!("has a wait of {long:?}")));
        }
        let extra = Extra { retry: Some(Written::from(self)) };
        serde_json::value::to_raw_value(&extra)
            .map_err(|error| refused(format!("cannot be written: {error}")))
    }

    /// The rule of a job's own, if it has one that can be read.
    pub(crate) fn of(extra: Option<&RawValue>) -> Option<Self> {
        let extra = extra?;
        match serde_json::from_str::<Extra>(extra.get()) {
            Ok(read) => read.retry.and_then(Written::rule),
            Err(error) => {
                // Whoever wrote it in SQL may have misspelt it: the job is tried again by the worker's rule instead.
                tracing::warn!(%error, "a job's own retry rule cannot be read");
                None
            }
        }
    }
}

/// Most waits of a table: what is kept with a job must stay small.
pub(crate) const TABLE_MAX: usize = 100;

/// The column `extra`: what few jobs have.
#[derive(Serialize, Deserialize)]
struct Extra {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<Written>,
}

/// A rule in the database, in seconds: people write it in SQL as well.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Table { table_s: Vec<f64> },
    Exponential { base_s: f64, max_s: f64, jitter: f64 },
}

impl From<&Backoff> for Written {
    fn from(rule: &Backoff) -> Self {
        match rule {
            Backoff::Table(waits) => {
                Self::Table { table_s: waits.iter().map(Duration::as_secs_f64).collect() }
            }
            Backoff::Exponential { base, max, jitter } => {
                let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
                Self::Exponential { base_s: base.as_secs_f64(), max_s: max.as_secs_f64(), jitter }
            }
        }
    }
}

impl Written {
    /// The rule itself, when its waits are possible.
    pub(crate) fn rule(self) -> Option<Backoff> {
        let wait = |s: f64| Duration::try_from_secs_f64(s).ok().filter(|d| *d <= DURATION_MAX);
        match self {
            Self::Table { table_s } if table_s.len() <= usize::from(ATTEMPTS_MAX) => {
                table_s.into_iter().map(wait).collect::<Option<_>>().map(Backoff::Table)
            }
            Self::Table { .. } => None,
            Self::Exponential { base_s, max_s, jitter } => {
                Some(Backoff::Exponential { base: wait(base_s)?, max: wait(max_s)?, jitter })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff::Exponential { base: SECOND, max: 10 * SECOND, jitter: 0.0 };
        let waits: Vec<u64> = (1..=6).map(|n| backoff.after(n).unwrap().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.after(u16::MAX), Some(10 * SECOND));
    }

    #[test]
    fn jitter_that_is_no_number_is_none() {
        let backoff = Backoff::Exponential { base: SECOND, max: SECOND, jitter: f64::NAN };
        assert_eq!(backoff.after(1), Some(SECOND));
    }

    #[test]
    fn jitter_only_shortens() {
        let (base, max) = (SECOND, 900 * SECOND);
        for attempt in 1..=40 {
            let whole = Backoff::Exponential { base, max, jitter: 0.0 }.after(attempt).unwrap();
            let wait = Backoff::exponential(base, max).after(attempt).unwrap();
            assert!(wait <= whole && wait >= whole.mul_f64(0.79), "attempt {attempt}: {wait:?} of {whole:?}");
        }
    }

    #[test]
    fn the_table_of_seed_004_gives_three_attempts() {
        let table = Backoff::table([0, 30, 300].map(Duration::from_secs));
        assert_eq!(table.first(), Duration::ZERO);
        assert_eq!(
            (1..=4).map(|n| table.after(n)).collect::<Vec<_>>(),
            [Some(30 * SECOND), Some(300 * SECOND), None, None]
        );
        assert_eq!(table.attempts(), Some(3));
    }

    #[test]
    fn a_rule_survives_being_written_and_read() {
        for rule in [Backoff::table([0, 30, 300].map(Duration::from_secs)), Backoff::default()] {
            let extra = rule.to_extra().unwrap();
            assert_eq!(Backoff::of(Some(&extra)), Some(rule));
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_rule() {
        for extra in [
            "{}",
            r#"{"retry":{"table_s":[-1]}}"#,
            r#"{"retry":{"tables":[1]}}"#,
            r#"{"retry":{"base_s":1e300,"max_s":1,"jitter":0}}"#,
        ] {
            let extra = RawValue::from_string(extra.to_owned()).unwrap();
            assert_eq!(Backoff::of(Some(&extra)), None);
        }
        assert!(Backoff::table([]).to_extra().is_err());
    }

    #[test]
    fn waits_may_be_as_long_as_a_delay_and_no_longer() {
        let longer = DURATION_MAX + Duration::from_millis(1);
        for (rule, legal) in [
            (Backoff::table([DURATION_MAX]), true),
            (Backoff::table([Duration::ZERO, longer]), false),
            (Backoff::exponential(SECOND, DURATION_MAX), true),
            (Backoff::exponential(SECOND, longer), false),
        ] {
            let extra = rule.to_extra();
            assert_eq!(extra.is_ok(), legal, "{rule:?}");
            assert!(!legal || Backoff::of(extra.ok().as_deref()) == Some(rule));
        }
    }
}
