//! The numbers of one moment, and those of the last minutes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Seconds that the small charts reach back.
const HISTORY_SECONDS_MAX: usize = 300;

/// How things are at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Snapshot {
    /// The database's clock.
    pub(crate) at: DateTime<Utc>,
    /// Jobs enqueued in a second.
    pub(crate) enqueued_per_second: f64,
    /// Jobs done in a second.
    pub(crate) done_per_second: f64,
    /// Jobs by state.
    pub(crate) counts: Counts,
    /// How long jobs were due before they were claimed, by the database's clock.
    pub(crate) pick_up: Option<Percentiles>,
    /// Statements on the whole database in a second; none without `pg_stat_statements`.
    pub(crate) statements_per_second: Option<f64>,
    /// Transactions on the whole database in a second.
    pub(crate) transactions_per_second: f64,
    /// Who holds jobs.
    pub(crate) workers: Vec<WorkerLine>,
}

/// How many jobs there are, by state, and how many there have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub(crate) struct Counts {
    pub(crate) scheduled: i64,
    pub(crate) ready: i64,
    pub(crate) leased: i64,
    pub(crate) done: i64,
    pub(crate) dead: i64,
    /// Jobs enqueued so far.
    pub(crate) enqueued: i64,
    /// Failed attempts so far that were followed by another.
    pub(crate) retried: i64,
    /// Jobs whose worker was gone when the lease ended.
    pub(crate) taken_back: i64,
}

/// The middle, and the slow end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Percentiles {
    #[serde(serialize_with = "as_milliseconds", rename = "p50_ms")]
    pub(crate) p50: Duration,
    #[serde(serialize_with = "as_milliseconds", rename = "p95_ms")]
    pub(crate) p95: Duration,
    #[serde(serialize_with = "as_milliseconds", rename = "p99_ms")]
    pub(crate) p99: Duration,
}

impl Percentiles {
    /// Those of some measurements; none of no measurement.
    pub(crate) fn of(mut measured: Vec<Duration>) -> Option<Self> {
        measured.sort_unstable();
        let last = measured.len().checked_sub(1)?;
        let at = |percent: usize| measured[last * percent / 100];
        Some(Self { p50: at(50), p95: at(95), p99: at(99) })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's shape
fn as_milliseconds<S: serde::Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(length.as_secs_f64() * 1_000.0)
}

/// A worker, and what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WorkerLine {
    pub(crate) name: String,
    /// Its process, when it is one of this machine that is known.
    pub(crate) pid: Option<u32>,
    /// Jobs in its hands.
    pub(crate) holds: i64,
    /// Anything to say about it.
    pub(crate) note: String,
}

/// The rates of the last minutes, newest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    enqueued: VecDeque<u64>,
    done: VecDeque<u64>,
}

impl History {
    pub(crate) fn push(&mut self, snapshot: &Snapshot) {
        for (series, rate) in
            [(&mut self.enqueued, snapshot.enqueued_per_second), (&mut self.done, snapshot.done_per_second)]
        {
            if series.len() == HISTORY_SECONDS_MAX {
                series.pop_front();
            }
            series.push_back(whole(rate));
        }
    }

    /// The newest `most` rates of enqueueing.
    pub(crate) fn enqueued(&self, most: usize) -> Vec<u64> {
        newest(&self.enqueued, most)
    }

    /// The newest `most` rates of jobs done.
    pub(crate) fn done(&self, most: usize) -> Vec<u64> {
        newest(&self.done, most)
    }
}

fn newest(series: &VecDeque<u64>, most: usize) -> Vec<u64> {
    series.iter().skip(series.len().saturating_sub(most)).copied().collect()
}

/// A rate as a bar's height.
fn whole(rate: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // saturates, and a rate is never negative
    let height = rate.round() as u64;
    height
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        assert_eq!(Percentiles::of(Vec::new()), None);
        let all = Percentiles::of((1..=101).rev().map(Duration::from_millis).collect()).unwrap();
        assert_eq!(
            (all.p50, all.p95, all.p99),
            (Duration::from_millis(51), Duration::from_millis(96), Duration::from_millis(100))
        );
    }

    #[test]
    fn history_keeps_the_newest() {
        let mut history = History::default();
        for rate in 0..400 {
            history.push(&Snapshot { done_per_second: f64::from(rate), ..Snapshot::default() });
        }
        assert_eq!(history.done(2), [398, 399]);
        assert_eq!(history.done(1_000).len(), HISTORY_SECONDS_MAX);
    }
}
