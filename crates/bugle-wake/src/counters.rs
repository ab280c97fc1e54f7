//! Everything is counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What an engine has done since its start.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Count,)*
            /// Looks by what caused them.
            pub(crate) causes: [Count; Why::ALL.len()],
            /// From a ring heard to the hand-out of what it announced.
            pub wake_latency: Histogram,
        }

        impl Counters {
            /// Name, value and meaning of each.
            #[must_use]
            pub fn table(&self) -> Vec<(String, u64, &'static str)> {
                let mut rows = vec![$((stringify!($name).to_owned(), self.$name.get(), concat!($($doc),+))),*];
                for why in Why::ALL {
                    rows.push((format!("looks_by_{}", why.as_str()), self.looks_by(why), why.meaning()));
                }
                rows
            }
        }
    };
}

counters! {
    /// Rings heard from producers.
    rings,
    /// Handovers heard from other nodes.
    handovers_heard,
    /// Handovers sent to other nodes.
    handovers_sent,
    /// Control rings heard.
    controls,
    /// Notifications that could not be read.
    garbage,
    /// Looks sent.
    looks,
    /// Looks that found nothing.
    empty_looks,
    /// Looks that failed.
    failed_looks,
    /// Hand-outs to intentions.
    hand_outs,
    /// Hand-outs given back because the intention was gone.
    hand_backs,
    /// Bells taken.
    bells_taken,
    /// Marks taken.
    marks_taken,
    /// Bells and marks let go.
    seats_left,
    /// Times that neither bell nor mark could be had because a producer was in flight.
    shallow_sleeps,
    /// Heartbeats.
    heartbeats,
    /// Work that a heartbeat found and no wake had announced: an alarm.
    fallback_hits,
    /// Alerts entered.
    alerts,
    /// Rings for which no look began in time.
    delivery_timeouts,
    /// Connections of the listener made.
    connects,
    /// Connections of the listener lost.
    disconnects,
    /// Background tasks that panicked and were started again.
    panics,
    /// Rings heard for queues in shadow mode.
    shadow_rings,
    /// Work that a poll found in shadow mode and that would have waited in another: no ring, timer or seat announced it, nor half a second later.
    shadow_misses,
    /// Intentions refused because too many wait.
    refused_intentions,
}

impl Counters {
    /// Looks that this caused.
    #[must_use]
    pub fn looks_by(&self, why: Why) -> u64 {
        self.causes[why as usize].get()
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// So many more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// One more.
    pub fn one(&self) {
        self.add(1);
    }
}

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        /// What makes a pump look.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Why { $($(#[doc = $doc])+ $name,)* }

        impl Why {
            /// All of them.
            pub const ALL: [Self; 14] = [$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)* }
            }
        }
    };
}

causes! {
    /// Somebody new waits.
    Intention = "intention",
    /// A producer rang.
    Ring = "ring",
    /// This process wrote work itself.
    Local = "local",
    /// Something is due, or a lease ends.
    Timer = "timer",
    /// The last look was full.
    More = "more",
    /// A seat was just taken: the second look.
    Seated = "seated",
    /// A shallow sleep is over: neither bell nor mark could be had.
    Shallow = "shallow",
    /// Another node let go of the bell, or took it.
    Handover = "handover",
    /// The listener is back.
    Connected = "connected",
    /// The node lingers awake.
    Linger = "linger",
    /// The pump is on alert.
    Alert = "alert",
    /// The last look failed.
    Retry = "retry",
    /// The queue's mode, or a node without LISTEN, polls.
    Poll = "poll",
    /// The heartbeat.
    Heartbeat = "heartbeat",
}

/// Times, counted in powers of two of a microsecond.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Count; 32],
}

impl Histogram {
    /// Counts a time.
    pub fn note(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = usize::try_from(micros.checked_ilog2().map_or(0, |log| log + 1)).unwrap_or(31);
        self.buckets[bucket.min(31)].one();
    }

    /// Upper bound of each bucket and how many fell into it; empty ones are left out.
    #[must_use]
    pub fn table(&self) -> Vec<(Duration, u64)> {
        let bound = |i: usize| Duration::from_micros(1 << i);
        self.buckets.iter().enumerate().map(|(i, n)| (bound(i), n.get())).filter(|(_, n)| *n > 0).collect()
    }
}
