//! Everything is counted.

use crate::recent::Recent;
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
            /// When some of these last happened.
            pub(crate) recent: Recent,
        }

        impl Counters {
            /// Name, value and meaning of each, looks by what caused them ([`Counters::looks_by`]) left out.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name.get(), concat!($($doc),+).trim_ascii_start())),*]
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
    /// Rings after which the look found nothing: another node, or another waiter, was faster.
    rings_in_vain,
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
    /// Attempts to connect to a database that was away, one a second; and one for every connection that broke.
    probes,
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
    /// Name, value and meaning of each.
    #[must_use]
    pub fn table(&self) -> Vec<(String, u64, &'static str)> {
        let named = self.named().into_iter().map(|(name, value, meaning)| (name.to_owned(), value, meaning));
        let causes =
            Why::ALL.map(|why| (format!("looks_by_{}", why.as_str()), self.looks_by(why), why.meaning()));
        named.chain(causes).collect()
    }

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

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge {
    up: Count,
    down: Count,
}

/// One more in a gauge, until it is dropped.
#[must_use = "it falls at once"]
#[derive(Debug)]
pub struct Raised<'g>(&'g Gauge);

impl Gauge {
    /// One more, until what is returned is dropped.
    pub fn raise(&self) -> Raised<'_> {
        self.up.one();
        Raised(self)
    }

    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.up.get().saturating_sub(self.down.get())
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.down.one();
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

            /// What it means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start(),)* }
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
    buckets: [Count; LENGTHS],
    micros: Count,
}

/// How many lengths are told apart.
const LENGTHS: usize = 32;

impl Histogram {
    /// Counts a time.
    pub fn note(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = usize::try_from(micros.checked_ilog2().map_or(0, |log| log + 1)).unwrap_or(LENGTHS);
        self.buckets[bucket.min(LENGTHS - 1)].one();
        self.micros.add(micros);
    }

    /// Upper bound of each bucket and how many fell into it; empty ones are left out.
    #[must_use]
    pub fn table(&self) -> Vec<(Duration, u64)> {
        self.buckets.iter().enumerate().map(|(i, n)| (bound(i), n.get())).filter(|(_, n)| *n > 0).collect()
    }

    /// Everything at this moment, as most systems of metrics want it.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let (mut at_most, mut count) = (Vec::with_capacity(LENGTHS), 0);
        for (i, n) in self.buckets.iter().enumerate() {
            count += n.get();
            at_most.push((bound(i), count));
        }
        at_most.pop(); // whatever is longer is in there as well
        Distribution { at_most, count, sum: Duration::from_micros(self.micros.get()) }
    }
}

fn bound(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

/// Times that were counted, up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many took at most so long, by length; longer ones are in `count` alone.
    pub at_most: Vec<(Duration, u64)>,
    /// How many there are.
    pub count: u64,
    /// All of them together.
    pub sum: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_each_length_and_in_all() {
        let histogram = Histogram::default();
        for time in
            [Duration::ZERO, Duration::from_micros(3), Duration::from_micros(4), Duration::from_hours(2)]
        {
            histogram.note(time);
        }
        let times = histogram.read();
        let at_most =
            |micros| times.at_most.iter().find(|(bound, _)| bound.as_micros() == micros).map(|(_, n)| *n);
        assert_eq!(
            [at_most(1), at_most(2), at_most(4), at_most(8), at_most(1 << 30)],
            [1, 1, 2, 3, 3].map(Some)
        );
        assert_eq!((at_most(1 << 31), times.count), (None, 4));
        assert_eq!(times.sum, Duration::from_hours(2) + Duration::from_micros(7));
    }
}
