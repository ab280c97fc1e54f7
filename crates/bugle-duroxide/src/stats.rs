//! How much there is of everything, for all processes together: what the database knows, asked when somebody asks.

use crate::items::unsigned;
use crate::metrics::{Metric, Value, unlabelled};
use crate::provider::PostgresProvider;
use crate::store::run;
use duroxide::providers::ProviderError;
use std::time::Duration;

/// How much there is of everything in a provider's schema: [`PostgresProvider::stats`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Instances, by the status of their current execution.
    pub instances: InstanceCounts,
    /// Instances with messages, by when they may be claimed.
    pub turns: Depth,
    /// Activities that have not ended.
    pub work: Depth,
    /// Instances that were sent messages and have no start: they wait for it.
    pub unbegun: u64,
    /// Messages to instances, claimed ones as well.
    pub messages: u64,
    /// Sessions that a worker has.
    pub sessions: u64,
}

/// Instances, by the status of their current execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceCounts {
    /// They go on.
    pub running: u64,
    /// They have ended with a result.
    pub completed: u64,
    /// They have ended with an error.
    pub failed: u64,
    /// They are between two executions.
    pub continued_as_new: u64,
}

/// One kind of work, by when it may be claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Now: nobody has it, or its lease is over.
    pub ready: u64,
    /// Not now: somebody has it.
    pub leased: u64,
    /// Later: a timer, or a retry after a delay.
    pub later: u64,
    /// For how long the first of those that are ready has been so.
    pub oldest: Option<Duration>,
}

#[derive(sqlx::FromRow)]
struct Row {
    running: i64,
    completed: i64,
    failed: i64,
    continued_as_new: i64,
    turns_ready: i64,
    turns_leased: i64,
    turns_later: i64,
    turns_oldest_us: Option<i64>,
    unbegun: i64,
    work_ready: i64,
    work_leased: i64,
    work_later: i64,
    work_oldest_us: Option<i64>,
    messages: i64,
    sessions: i64,
}

impl From<Row> for Stats {
    fn from(row: Row) -> Self {
        let time = |us: i64| Duration::from_micros(unsigned(us));
        Self {
            instances: InstanceCounts {
                running: unsigned(row.running),
                completed: unsigned(row.completed),
                failed: unsigned(row.failed),
                continued_as_new: unsigned(row.continued_as_new),
            },
            turns: Depth {
                ready: unsigned(row.turns_ready),
                leased: unsigned(row.turns_leased),
                later: unsigned(row.turns_later),
                oldest: row.turns_oldest_us.map(time),
            },
            work: Depth {
                ready: unsigned(row.work_ready),
                leased: unsigned(row.work_leased),
                later: unsigned(row.work_later),
                oldest: row.work_oldest_us.map(time),
            },
            unbegun: unsigned(row.unbegun),
            messages: unsigned(row.messages),
            sessions: unsigned(row.sessions),
        }
    }
}

impl Stats {
    /// Every figure, in the form of [`crate::Metrics::table`]. All processes see the same: ask in one of them.
    #[must_use]
    pub fn table(&self) -> Vec<Metric> {
        let InstanceCounts { running, completed, failed, continued_as_new } = self.instances;
        let mut rows: Vec<Metric> = [
            ("running", running),
            ("completed", completed),
            ("failed", failed),
            ("continued_as_new", continued_as_new),
        ]
        .map(|(status, n)| gauge("instances", ("status", status), n, "Instances by status."))
        .into();
        for (name, depth, meaning) in [
            ("turns", self.turns, "Instances with messages, by when they may be claimed."),
            ("work", self.work, "Activities that have not ended, by when they may be claimed."),
        ] {
            let states = [("ready", depth.ready), ("leased", depth.leased), ("later", depth.later)];
            rows.extend(states.map(|(state, n)| gauge(name, ("state", state), n, meaning)));
            rows.push(Metric {
                name: "oldest_seconds",
                label: Some(("kind", name)),
                value: Value::Time(depth.oldest.unwrap_or_default()),
                meaning: "For how long the first of those that are ready has been so.",
            });
        }
        rows.extend(
            [
                ("unbegun", Value::Gauge(self.unbegun), "Instances with messages and without a start."),
                ("messages", Value::Gauge(self.messages), "Messages to instances, claimed ones as well."),
                ("sessions", Value::Gauge(self.sessions), "Sessions that a worker has."),
            ]
            .map(unlabelled),
        );
        rows
    }
}

fn gauge(name: &'static str, label: (&'static str, &'static str), n: u64, meaning: &'static str) -> Metric {
    Metric { name, label: Some(label), value: Value::Gauge(n), meaning }
}

impl PostgresProvider {
    /// How much there is of everything: one statement, which counts rows. For a person, or a look every minute; nothing asks it in the
    /// background.
    pub async fn stats(&self) -> Result<Stats, ProviderError> {
        let store = self.store();
        let row: Row =
            run("stats", || Box::pin(sqlx::query_as(store.sql.stats()).fetch_one(&store.pool))).await?;
        Ok(row.into())
    }
}
