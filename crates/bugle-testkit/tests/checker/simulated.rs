//! Legal histories by the hundred: none may be red.

use std::time::Duration;

use bugle_testkit::checker::{Counts, Limits, check};

use super::simulator::{simulate, simulate_and_stop};

/// The simulated clients are slow on purpose; how slow is too slow is tested by hand.
pub(crate) fn patient() -> Limits {
    let forever = Duration::from_secs(100_000);
    Limits { poll_interval: forever, drain_grace: forever, death_ends_lease: false, ..Limits::default() }
}

#[test]
fn a_legal_queue_is_always_green() {
    let mut total = Counts::default();
    for seed in 0..300 {
        let (history, snapshot) = simulate(seed, 600);
        let report = check(&history, &snapshot, &patient());
        assert!(report.is_green(), "seed {seed}: {report}");
        total.events += report.counts.events;
        total.unknowns += report.counts.unknowns;
        total.redeliveries += report.counts.redeliveries;
        for (kind, count) in report.counts.faults_hit {
            *total.faults_hit.entry(kind).or_default() += count;
        }
    }
    assert!(total.redeliveries > 1000 && total.unknowns > 1000 && total.faults_hit.len() == 2, "{total:?}");
}

#[test]
fn a_legal_queue_is_green_at_any_moment() {
    for seed in 0..300 {
        let (history, snapshot) = simulate_and_stop(seed, 200);
        let report = check(&history, &snapshot, &patient());
        assert!(report.is_green(), "seed {seed}: {report}");
    }
}
