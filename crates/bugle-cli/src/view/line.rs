//! The view where there is no terminal: one line for each snapshot.

use super::render::{length, number};
use super::{Percentiles, Snapshot};

/// Everything that changes, on one line.
pub(crate) fn line(s: &Snapshot) -> String {
    let c = &s.counts;
    let pick_up = s.pick_up.map_or_else(|| "-".to_owned(), |p| percentiles(&p));
    let statements = s.statements_per_second.map_or_else(|| "-".to_owned(), number);
    format!(
        "enqueued {}/s  done {}/s  |  scheduled {}  ready {}  leased {}  done {}  dead {}  taken back {}  |  pick-up {pick_up}  |  statements {statements}/s  transactions {}/s",
        number(s.enqueued_per_second),
        number(s.done_per_second),
        c.scheduled,
        c.ready,
        c.leased,
        c.done,
        c.dead,
        c.taken_back,
        number(s.transactions_per_second),
    )
}

/// `p50 1.2 ms, p95 3.4 ms, p99 5.6 ms`.
pub(super) fn percentiles(p: &Percentiles) -> String {
    format!("p50 {}, p95 {}, p99 {}", length(p.p50), length(p.p95), length(p.p99))
}
