//! When something was broken, and what that excuses.

use std::collections::{BTreeMap, HashMap};

use crate::history::FaultKind;

/// One fault, from the damage to the repair. Without an end it lasts until the run is healed.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) kind: FaultKind,
    pub(super) begin_n: u64,
    pub(super) begin_t: i64,
    pub(super) end: Option<(u64, i64)>,
    /// The invoke of the latest ack among those accepted before this window: every commit answered before that
    /// invoke was flushed together with the ack, at the latest.
    pub(super) flushed_n: u64,
}

/// All faults of a run.
#[derive(Debug, Default)]
pub(super) struct Faults<'h> {
    pub(super) windows: Vec<Window>,
    /// When each victim was killed: the event and its time.
    pub(super) deaths: HashMap<&'h str, (u64, i64)>,
    /// The last time that all was declared well.
    pub(super) healed: Option<(u64, i64)>,
}

impl Faults<'_> {
    /// Whether the commit of a call, sent and answered at these events, may have been undone by a crash before event `later`. One that was sent
    /// before the crash was over may have committed before it, however late its answer was noted.
    pub(super) fn may_be_lost(&self, (invoked, answered): (u64, u64), later: u64) -> bool {
        self.windows.iter().filter(|window| window.kind.loses_unflushed_commits()).any(|crash| {
            let end_n = crash.end.map_or(u64::MAX, |(n, _)| n);
            invoked < end_n && answered > crash.flushed_n && later > crash.begin_n
        })
    }

    /// Whether `who` was killed before event `later`.
    pub(super) fn died_before(&self, who: &str, later: u64) -> bool {
        self.deaths.get(who).is_some_and(|(death, _)| *death < later)
    }

    /// The times during which something was broken, or so `grace_ns` before; merged, in order.
    pub(super) fn troubled(&self, grace_ns: i64) -> Vec<(i64, i64)> {
        let healed_t = self.healed.map_or(i64::MAX, |(_, t)| t);
        let mut times: Vec<_> = self
            .windows
            .iter()
            .filter(|window| window.kind.excuses_delay())
            .map(|window| {
                let end_t = window.end.map_or(healed_t.max(window.begin_t), |(_, t)| t);
                (window.begin_t, end_t.saturating_add(grace_ns))
            })
            .collect();
        times.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (begin, end) in times {
            match merged.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        merged
    }

    /// How many faults of each kind met a call: one that was open during the window or begun right after it.
    pub(super) fn hit(&self, calls: &[(i64, i64)], grace_ns: i64) -> BTreeMap<FaultKind, u64> {
        // `calls` is sorted by begin; with the latest end of all calls so far, one look per window is enough.
        let latest_ends: Vec<i64> = calls
            .iter()
            .scan(i64::MIN, |latest, (_, end)| {
                *latest = (*latest).max(*end);
                Some(*latest)
            })
            .collect();
        let mut hit = BTreeMap::new();
        for window in &self.windows {
            let end_t = window.end.map_or(i64::MAX, |(_, t)| t.saturating_add(grace_ns));
            let begun = calls.partition_point(|(begin, _)| *begin <= end_t);
            if begun > 0 && latest_ends[begun - 1] >= window.begin_t {
                *hit.entry(window.kind.clone()).or_default() += 1;
            }
        }
        hit
    }
}

/// The longest stretch of `[from, to]` outside the `troubled` times.
pub(super) fn longest_calm(troubled: &[(i64, i64)], from: i64, to: i64) -> i64 {
    let mut calm_since = from;
    let mut longest = 0;
    let first = troubled.partition_point(|(_, end)| *end < from);
    for (begin, end) in troubled[first..].iter().take_while(|(begin, _)| *begin <= to) {
        longest = longest.max(begin - calm_since);
        calm_since = calm_since.max(*end);
    }
    longest.max(to.saturating_sub(calm_since))
}
