//! Every option of the engine, once: its default, its unit and what it does.

use crate::alert::Policy;
use std::time::Duration;

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident: Duration = $default:expr;)*) => {
        /// The times that the engine keeps; the defaults are good.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Times { $($(#[doc = $doc])+ pub $name: Duration,)* }

        impl Default for Times {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Times {
            /// Sets one by its name; false when there is none of that name.
            pub fn set(&mut self, name: &str, time: Duration) -> bool {
                match name {
                    $(stringify!($name) => self.$name = time,)*
                    _ => return false,
                }
                true
            }

            /// Name, value and meaning of each.
            #[must_use]
            pub fn table(&self) -> Vec<(&'static str, Duration, String)> {
                vec![$((stringify!($name), self.$name, concat!($($doc),+).trim().to_owned())),*]
            }
        }
    };
}

options! {
    /// How often a sleeping node asks whether its listener lives, looks, and a reserve sits again.
    heartbeat: Duration = Duration::from_secs(15);
    /// How long the listener's statements may take before its connection counts as dead.
    answer_within: Duration = Duration::from_secs(5);
    /// How long a node stays awake after work when rings come fast; doubles while they keep coming.
    linger: Duration = Duration::from_millis(50);
    /// The longest linger.
    linger_max: Duration = Duration::from_secs(1);
    /// The shortest time between two looks of a node that lingers.
    linger_poll: Duration = Duration::from_micros(200);
    /// The longest time between two looks of a node that lingers.
    linger_poll_max: Duration = Duration::from_millis(5);
    /// The shortest sleep of a node that found neither work nor a seat; it is random and doubles.
    shallow: Duration = Duration::from_millis(2);
    /// The longest such sleep: the worst latency behind a producer whose transaction stays open.
    shallow_max: Duration = Duration::from_millis(100);
    /// How often a pump on alert looks.
    alert_interval: Duration = Duration::from_millis(100);
    /// The shortest alert.
    alert_minimum: Duration = Duration::from_secs(5);
    /// A ring for which no look has begun after this time is a fault.
    delivery_timeout: Duration = Duration::from_millis(100);
    /// How often a queue in mode `polling_only` or `shadow` is looked at, unless its row says otherwise.
    poll_interval: Duration = Duration::from_secs(1);
    /// Where LISTEN is impossible: how soon to look again after work was found.
    poll_busy: Duration = Duration::from_millis(50);
    /// Where LISTEN is impossible: how soon to look again after an empty look.
    poll_quiet: Duration = Duration::from_millis(100);
    /// Where LISTEN is impossible: how soon to look again after five empty looks in a row.
    poll_idle: Duration = Duration::from_millis(500);
}

/// How the engine works; every field has a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The times that it keeps.
    pub times: Times,
    /// Rings within `linger` after which the bell is let go, of those that come before the last was answered.
    pub fast_rings: usize,
    /// What puts a pump on alert.
    pub alert: Policy,
    /// Empty looks in a row before an alert ends.
    pub alert_empty_looks: u32,
    /// Consumers that may wait at once for one kind of work.
    pub intentions_max: usize,
    /// Looks of one kind of work under way at once. A queue has never more than one.
    pub looks_max: usize,
    /// Use LISTEN where it is possible. `false`: poll, as behind a pooler.
    pub listen: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            times: Times::default(),
            fast_rings: 10,
            alert: Policy::OnFault,
            alert_empty_looks: 5,
            intentions_max: 10_000,
            looks_max: 4,
            listen: true,
        }
    }
}

impl Options {
    /// Name, value with its unit, and meaning of each: what `bugle config show` prints.
    #[must_use]
    pub fn table(&self) -> Vec<(&'static str, String, String)> {
        let mut rows: Vec<_> = self
            .times
            .table()
            .into_iter()
            .map(|(name, time, what)| (name, format!("{time:?}"), what))
            .collect();
        rows.extend([
            (
                "fast_rings",
                self.fast_rings.to_string(),
                "Rings within `linger` after which the bell is let go, of those that come before the last was answered."
                    .to_owned(),
            ),
            (
                "alert",
                self.alert.as_str().to_owned(),
                "What puts a pump on alert: `on_fault` or `on_wake`.".to_owned(),
            ),
            (
                "alert_empty_looks",
                self.alert_empty_looks.to_string(),
                "Empty looks in a row before an alert ends.".to_owned(),
            ),
            (
                "intentions_max",
                self.intentions_max.to_string(),
                "Consumers that may wait at once for one kind of work.".to_owned(),
            ),
            (
                "looks_max",
                self.looks_max.to_string(),
                "Looks of one kind of work under way at once.".to_owned(),
            ),
            ("listen", self.listen.to_string(), "Use LISTEN where it is possible.".to_owned()),
            (
                "buckets",
                crate::BUCKETS.to_string(),
                "Buckets that queues fall into, and as many for the ends of their jobs (fixed).".to_owned(),
            ),
        ]);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that users read must say what the code does.
    #[test]
    fn the_page_lists_every_option_with_its_default() {
        let page = include_str!("../../../docs/wake.md");
        for (name, default, what) in Options::default().table() {
            let row = format!("| `{name}` | {default} | {what} |");
            assert!(page.contains(&row), "docs/wake.md lacks:\n{row}");
        }
    }

    #[test]
    fn every_time_can_be_set_by_its_name() {
        let mut times = Times::default();
        for (name, ..) in Times::default().table() {
            assert!(times.set(name, Duration::from_secs(7)), "{name}");
        }
        assert!(times.table().iter().all(|(_, time, _)| *time == Duration::from_secs(7)));
        assert!(!times.set("heartbeet", Duration::from_secs(7)));
    }
}
