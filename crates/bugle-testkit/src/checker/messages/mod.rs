//! Judges a history of messages: partitions, consumer groups, leases, cursors.
//!
//! | Rule | Says |
//! |---|---|
//! | I0 | the record itself can be judged |
//! | M1 | nothing accepted is lost: it is in the log where its producer was told; nothing is done for a group that was not handed to it and acked |
//! | M2 | no phantom: what is in the log was pushed, once; `n` is dense in a partition; a claim has no gap |
//! | M3 | order: of one producer, what was pushed after an answer stands behind it in its partition |
//! | M4 | one holder: no group is handed a partition that another of its consumers still holds |
//! | M5 | fencing: once a newer claim was answered, an older token settles nothing |
//! | M6 | a cursor never goes back: what was acked is not handed out by a pop begun afterwards |
//!
//! As with jobs, claims commit without waiting for the disk: one that was answered before a crash of the server may be gone after it,
//! unless an ack that was invoked later was accepted before the crash.
//!
//! Claims of a group and partition are ordered by when their leases began, by the database's clock: the one that wins has read what the one
//! before it had committed.

mod facts;
mod gather;
mod holders;
mod log;

use super::limits::Limits;
use super::report::Report;
use crate::history::History;
use std::collections::BTreeMap;

/// What the tables held at the end.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// The log, partition by partition, each in its order.
    pub log: BTreeMap<String, Vec<Logged>>,
    /// Up to where each group has done each partition, by group and partition.
    pub cursors: BTreeMap<(String, String), i64>,
}

/// A message in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// Its place.
    pub seq: i64,
    /// Its number in its partition.
    pub n: i64,
    /// What the test put into its payload.
    pub mark: u64,
}

/// Holds `history` and the final `books` against the rules. `limits.lease` is that of every pop.
#[must_use]
pub fn check(history: &History, books: &Books, limits: &Limits) -> Report {
    let (mut facts, mut report) = gather::gather(history, limits);
    facts.sort();
    log::check(&facts, books, &mut report);
    holders::check(&facts, &mut report);
    report.violations.sort_by_key(|violation| (violation.rule, violation.job));
    report
}
