//! What a worker has done. The labels are bounded: the kinds that it has handlers for, and one for all others.

use bugle_wake::{Count, Histogram};
use std::collections::BTreeMap;

/// What a worker has done since it was made. The words of seed 004 for these are in docs/jobs.md.
///
/// Jobs are counted when their handlers end. What the database made of it is counted there, for all workers together
/// (`Bugle::list_queues`).
#[derive(Debug, Default)]
pub struct Counters {
    /// Hand-outs that brought jobs.
    pub claims: Count,
    /// Statements that settled jobs.
    pub settlements: Count,
    /// Such statements that failed and were tried again.
    pub settlements_retried: Count,
    /// Jobs that were lost with a worker before and were put off, the attempt not counted, because another one ran.
    pub put_off: Count,
    /// Jobs that could not be settled in time and are left to the end of their leases.
    pub unsettled: Count,
    kinds: BTreeMap<&'static str, KindCounters>,
    /// Jobs of kinds without a handler of their own.
    other: KindCounters,
}

macro_rules! kind {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What became of the jobs of one kind.
        #[derive(Debug, Default)]
        pub struct KindCounters {
            $($(#[doc = $doc])+ pub $name: Count,)*
            /// How long the handlers ran.
            pub run_time: Histogram,
        }

        impl KindCounters {
            /// Name, value and meaning of each.
            #[must_use]
            pub fn table(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name.get(), concat!($($doc),+))),*]
            }
        }
    };
}

kind! {
    /// Jobs claimed and started.
    claimed,
    /// Jobs done.
    done,
    /// Attempts that failed and will be tried again.
    failed,
    /// Attempts that failed and were the last.
    dead,
    /// Of the failed and dead: attempts whose time was up.
    timeouts,
    /// Of the failed and dead: handlers that panicked.
    panics,
    /// Jobs put off.
    snoozed,
    /// Jobs given back, by the handler or because the worker stopped.
    released,
    /// Jobs interrupted because somebody cancelled them.
    cancelled,
    /// Jobs interrupted because the lease was lost.
    lost,
}

impl Counters {
    pub(super) fn new(kinds: impl Iterator<Item = &'static str>) -> Self {
        Self { kinds: kinds.map(|kind| (kind, KindCounters::default())).collect(), ..Self::default() }
    }

    /// Those of one kind; kinds without a handler of their own share one.
    #[must_use]
    pub fn kind(&self, kind: &str) -> &KindCounters {
        self.kinds.get(kind).unwrap_or(&self.other)
    }

    /// Every kind that has a handler of its own, and `other`.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &KindCounters)> {
        self.kinds.iter().map(|(name, kind)| (*name, kind)).chain([("other", &self.other)])
    }
}
