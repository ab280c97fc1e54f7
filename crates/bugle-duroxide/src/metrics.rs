//! What is counted, in a form for any system of metrics. The provider counts what only it sees; what the wake engine counts is asked of
//! it, so that nothing is counted twice.

use bugle_wake::{Count, Counters as EngineCounters, Distribution, Histogram, Node, Why};
use std::time::Duration;

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name: lower case, words joined by `_`, the unit last if it has one.
    pub name: &'static str,
    /// Which of several with this name it is, such as `("kind", "turns")`. A label has few values, and always the same.
    pub label: Option<(&'static str, &'static str)>,
    /// How much it is.
    pub value: Value,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

/// How much a figure is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// It only grows, from 0 when the provider was made.
    Counter(u64),
    /// It is as much at this moment.
    Gauge(u64),
    /// It is as long at this moment.
    Time(Duration),
    /// It is many times, which only become more.
    Histogram(Distribution),
}

macro_rules! kind {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Of one kind of work, as it is counted.
        #[derive(Debug, Default)]
        pub(crate) struct KindCounters {
            $(pub(crate) $name: Count,)*
            pub(crate) claim_latency: Histogram,
        }

        /// What became of the calls for one kind of work: turns, or work.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct KindMetrics {
            $($(#[doc = $doc])+ pub $name: u64,)*
            /// For how long what was claimed had been due, by the database's clock. Of a turn: its first message. What was claimed before is left out.
            pub claim_latency: Distribution,
        }

        impl KindCounters {
            fn read(&self) -> KindMetrics {
                KindMetrics { $($name: self.$name.get(),)* claim_latency: self.claim_latency.read() }
            }
        }

        impl KindMetrics {
            fn rows(&self, kind: &'static str) -> Vec<Metric> {
                let label = Some(("kind", kind));
                let mut rows = vec![$(Metric {
                    name: stringify!($name),
                    label,
                    value: Value::Counter(self.$name),
                    meaning: concat!($($doc),+).trim_ascii_start(),
                }),*];
                rows.push(Metric {
                    name: "claim_latency_seconds",
                    label,
                    value: Value::Histogram(self.claim_latency.clone()),
                    meaning: "For how long what was claimed for the first time had been due, by the database's clock.",
                });
                rows
            }
        }
    };
}

kind! {
    /// Fetches begun.
    fetches,
    /// Of these: fetches that waited in the engine, instead of asking the database once.
    fetches_waited,
    /// Of these: fetches that returned with nothing, at the end of their wait if they waited.
    fetches_empty,
    /// Of these: fetches that failed.
    fetches_failed,
    /// Acks.
    acks,
    /// Calls that came with a lease that was lost: acks, renewals, and what was to be given back.
    leases_lost,
}

impl KindCounters {
    /// Counts a fetch and what came of it. One that is dropped has begun, and no more is known.
    pub(crate) async fn fetch<T, E>(
        &self,
        fetch: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<T>, E> {
        self.fetches.one();
        let fetched = fetch.await;
        match &fetched {
            Ok(Some(_)) => {}
            Ok(None) => self.fetches_empty.one(),
            Err(_) => self.fetches_failed.one(),
        }
        fetched
    }

    /// Something was claimed that had been due for so long; `None`: it was claimed before.
    pub(crate) fn claimed(&self, late_us: Option<i64>) {
        if let Some(late) = late_us {
            self.claim_latency.note(Duration::from_micros(late.max(0).unsigned_abs()));
        }
    }
}

/// What the provider counts itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: KindCounters,
    pub(crate) work: KindCounters,
    pub(crate) history_hits: Count,
    pub(crate) history_misses: Count,
}

/// What a provider has done since it was made, and how it stands: [`crate::PostgresProvider::metrics`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Turns: fetches of orchestration items and what became of them.
    pub turns: KindMetrics,
    /// Work: the same of activities.
    pub work: KindMetrics,
    /// Histories that were in memory: nothing of them, or only what was new, was sent by the database.
    pub history_hits: u64,
    /// Histories that the database sent as a whole.
    pub history_misses: u64,
    /// Instances whose history is in memory.
    pub histories: u64,
    /// The text of these histories, in bytes.
    pub history_bytes: u64,
    /// Can producers ring for this process? Not before a fetch has waited, while the listener connects, and where LISTEN is impossible.
    pub listening: bool,
    /// Does the engine look at short intervals, after a fault?
    pub on_alert: bool,
    /// Fetches that wait now.
    pub waiting: u64,
    /// Looks of the engine by what caused them, in the engine's words.
    pub wakes: Vec<(Why, u64)>,
    /// From a ring heard to the hand-out of what it announced.
    pub wake_latency: Distribution,
    /// Everything else that the engine counts: name, value and meaning.
    pub engine: Vec<(&'static str, u64, &'static str)>,
}

impl Metrics {
    /// `node`: none before a fetch has waited.
    pub(crate) fn new(counters: &Counters, histories: (usize, usize), node: Option<&Node>) -> Self {
        let unused = EngineCounters::default();
        let engine = node.map_or(&unused, Node::counters);
        let status = node.map(Node::status);
        Self {
            turns: counters.turns.read(),
            work: counters.work.read(),
            history_hits: counters.history_hits.get(),
            history_misses: counters.history_misses.get(),
            histories: histories.0 as u64,
            history_bytes: histories.1 as u64,
            listening: status.as_ref().is_some_and(|status| status.listening),
            on_alert: status.as_ref().is_some_and(|status| status.alert),
            waiting: status.as_ref().map_or(0, |status| status.intentions as u64),
            wakes: Why::ALL.map(|why| (why, engine.looks_by(why))).to_vec(),
            wake_latency: engine.wake_latency.read(),
            engine: engine.named(),
        }
    }

    /// Every figure. Which there are, and in which order, never changes while a program runs.
    #[must_use]
    pub fn table(&self) -> Vec<Metric> {
        let gauge = |on: bool| Value::Gauge(u64::from(on));
        let mut rows = self.turns.rows("turns");
        rows.extend(self.work.rows("work"));
        rows.extend(self.wakes.iter().map(|(why, looks)| Metric {
            name: "wakes",
            label: Some(("reason", why.as_str())),
            value: Value::Counter(*looks),
            meaning: why.meaning(),
        }));
        rows.extend(
            [
                (
                    "wake_latency_seconds",
                    Value::Histogram(self.wake_latency.clone()),
                    "From a ring heard to the hand-out of what it announced.",
                ),
                (
                    "history_hits",
                    Value::Counter(self.history_hits),
                    "Histories of which the database sent nothing, or only what was new.",
                ),
                (
                    "history_misses",
                    Value::Counter(self.history_misses),
                    "Histories that the database sent as a whole.",
                ),
                ("histories", Value::Gauge(self.histories), "Instances whose history is in memory."),
                ("history_bytes", Value::Gauge(self.history_bytes), "The text of these histories."),
                ("listening", gauge(self.listening), "1: producers can ring for this process."),
                ("on_alert", gauge(self.on_alert), "1: it looks at short intervals, after a fault."),
                ("waiting", Value::Gauge(self.waiting), "Fetches that wait now."),
            ]
            .map(unlabelled),
        );
        // Looks are the sum of all wakes.
        let engine = self.engine.iter().filter(|(name, ..)| *name != "looks");
        rows.extend(engine.map(|&(name, n, meaning)| unlabelled((name, Value::Counter(n), meaning))));
        rows
    }
}

pub(crate) fn unlabelled((name, value, meaning): (&'static str, Value, &'static str)) -> Metric {
    Metric { name, label: None, value, meaning }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_a_meaning() {
        let table = Metrics::new(&Counters::default(), (0, 0), None).table();
        let names: HashSet<_> = table.iter().map(|metric| (metric.name, metric.label)).collect();
        assert_eq!(names.len(), table.len());
        for metric in &table {
            let legal = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(legal(metric.name) && metric.label.is_none_or(|(key, value)| legal(key) && legal(value)));
            assert!(metric.meaning.ends_with('.') && !metric.meaning.starts_with(' '), "{metric:?}");
        }
    }
}
