//! How a fetch waits.

use bugle_wake::{Options, Times};
use std::time::Duration;

/// How fetches wait for work. Off by default: a fetch that finds nothing returns at once.
///
/// ```
/// use bugle_duroxide::LongPollConfig;
/// use std::time::Duration;
///
/// let config = LongPollConfig::enabled().fallback_interval(Duration::from_secs(60)).timer_grace_ms(50);
/// assert!(config.enabled);
/// assert_eq!(config.fallback_poll_interval, Duration::from_secs(60));
/// assert_eq!(config.timer_grace_period, Duration::from_millis(50));
/// assert_eq!(config.max_wait_time, Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongPollConfig {
    /// Wait at all? Default: no.
    pub enabled: bool,
    /// The longest time without a look. Default: 5 minutes, which is longer than `heartbeat` and so never reached.
    pub fallback_poll_interval: Duration,
    /// The longest time without a look whatever `fallback_poll_interval` says, with one statement for each kind of work. It also asks whether the listener's
    /// connection lives, and whether a node that slept with the bell is still there. Default: 15 s.
    pub heartbeat: Duration,
    /// The longest wait of one fetch, however long its `poll_timeout` is. Default: 30 s.
    pub max_wait_time: Duration,
    /// The most by which a sleep until a due time is shortened for the way that the database's answer has taken. Default: 100 ms. A timer never fires early for
    /// it: only the database's clock decides what is due.
    pub timer_grace_period: Duration,
    /// The shortest time of fast polling after a fault. Default: 60 s.
    pub aggressive_poll_duration: Duration,
    /// Empty looks in a row before fast polling ends. Default: 5.
    pub aggressive_exit_threshold: u32,
    /// A wake that no look has followed after this time is a fault. Default: 100 ms.
    pub notify_delivery_timeout: Duration,
}

impl Default for LongPollConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            fallback_poll_interval: Duration::from_mins(5),
            heartbeat: Times::default().heartbeat,
            max_wait_time: Duration::from_secs(30),
            timer_grace_period: Duration::from_millis(100),
            aggressive_poll_duration: Duration::from_mins(1),
            aggressive_exit_threshold: 5,
            notify_delivery_timeout: Duration::from_millis(100),
        }
    }
}

impl LongPollConfig {
    /// The defaults, switched on.
    #[must_use]
    pub fn enabled() -> Self {
        Self { enabled: true, ..Self::default() }
    }

    /// Sets `fallback_poll_interval`, under the name of the simplified design, where its default is 60 s.
    #[must_use]
    pub fn fallback_interval(mut self, interval: Duration) -> Self {
        self.fallback_poll_interval = interval;
        self
    }

    /// Sets `timer_grace_period` in milliseconds, under the name of the simplified design, where its default is 50.
    #[must_use]
    pub fn timer_grace_ms(mut self, milliseconds: u64) -> Self {
        self.timer_grace_period = Duration::from_millis(milliseconds);
        self
    }

    /// How long a fetch waits; `None`: not at all.
    pub(crate) fn wait(&self, poll_timeout: Duration) -> Option<Duration> {
        let wait = poll_timeout.min(self.max_wait_time);
        (self.enabled && !wait.is_zero()).then_some(wait)
    }

    /// The same for the wake engine.
    pub(crate) fn wake_options(&self) -> Options {
        let times = Times {
            heartbeat: self.fallback_poll_interval.min(self.heartbeat).max(Duration::from_millis(1)),
            alert_minimum: self.aggressive_poll_duration,
            delivery_timeout: self.notify_delivery_timeout,
            ..Times::default()
        };
        Options { times, alert_empty_looks: self.aggressive_exit_threshold, ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_shorter_of_its_limits() {
        let config = LongPollConfig::enabled();
        assert_eq!(config.wait(Duration::from_secs(5)), Some(Duration::from_secs(5)));
        assert_eq!(config.wait(Duration::from_secs(500)), Some(config.max_wait_time));
        assert_eq!(config.wait(Duration::ZERO), None);
        assert_eq!(LongPollConfig::default().wait(Duration::from_secs(5)), None);
    }

    #[test]
    fn faults_are_polled_for_as_long_as_the_configuration_says() {
        let options = LongPollConfig::default().wake_options();
        assert_eq!(options.times.alert_minimum, Duration::from_mins(1));
        assert_eq!(options.times.heartbeat, Duration::from_secs(15));
        assert_eq!(options.alert_empty_looks, 5);
    }
}
