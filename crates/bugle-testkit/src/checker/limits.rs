//! What the run was configured with, and how late is too late.

use std::time::Duration;

/// The bounds that I11 demands, and the one choice that depends on who speaks to the database.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How often a waiting claim looks, if no wake reaches it.
    pub poll_interval: Duration,
    /// Added to the poll interval before a pick-up counts as slow.
    pub pick_up_grace: Duration,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How often expired leases are swept.
    pub sweep_interval: Duration,
    /// Added to lease and sweep before a drain counts as slow.
    pub drain_grace: Duration,
    /// How long after its repair a fault still excuses a slow pick-up.
    pub fault_grace: Duration,
    /// Whether a worker's death may end its leases at once, because a node that outlives it gives them back.
    /// `false` for workers that speak to the database themselves: their leases must run out.
    pub death_ends_lease: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(1),
            pick_up_grace: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            sweep_interval: Duration::from_secs(1),
            drain_grace: Duration::from_secs(5),
            fault_grace: Duration::from_secs(2),
            death_ends_lease: true,
        }
    }
}

/// Nanoseconds, as the history counts them.
pub(super) fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
