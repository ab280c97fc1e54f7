//! What the checker found.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::FaultKind;

/// A rule; see the table of [`crate::checker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The record can be judged.
    I0,
    /// No loss.
    I1,
    /// No phantom.
    I2,
    /// One key, one job.
    I3,
    /// `x` grows, no token twice.
    I4,
    /// One holder.
    I5,
    /// Fencing.
    I6,
    /// Ended is ended.
    I7,
    /// Order.
    I8,
    /// Not early.
    I9,
    /// A redelivery has a cause.
    I10,
    /// Bounds.
    I11,
    /// The books balance.
    I14,
    /// Messages: nothing accepted is lost, and nothing is done that nobody acked.
    M1,
    /// Messages: no phantom, none twice, numbers without gaps.
    M2,
    /// Messages: order of a producer in a partition.
    M3,
    /// Messages: one holder of a group's lease of a partition.
    M4,
    /// Messages: fencing.
    M5,
    /// Messages: a cursor never goes back.
    M6,
}

/// One contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// The job concerned, where there is one.
    pub job: Option<i64>,
    /// The numbers of the events that contradict each other.
    pub events: Vec<u64>,
    /// What is wrong, for a person.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.rule)?;
        if let Some(job) = self.job {
            write!(f, " job {job}")?;
        }
        write!(f, ": {}", self.what)?;
        if self.events.is_empty() { Ok(()) } else { write!(f, " (events {:?})", self.events) }
    }
}

/// What the run went through; a run that met no fault proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events in the history.
    pub events: u64,
    /// Calls answered *unknown*, or not at all.
    pub unknowns: u64,
    /// Jobs handed out, redeliveries included.
    pub hand_outs: u64,
    /// Jobs handed out again.
    pub redeliveries: u64,
    /// Jobs neither finished nor scheduled at the end of a run that ended too early to blame anybody.
    pub undrained: u64,
    /// Faults during which, or after which, a call was under way, by kind.
    pub faults_hit: BTreeMap<FaultKind, u64>,
}

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that is wrong, by rule and job.
    pub violations: Vec<Violation>,
    /// What the run went through.
    pub counts: Counts,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_green(&self) -> bool {
        self.violations.is_empty()
    }

    /// The rules that are broken, each once.
    #[must_use]
    pub fn broken_rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = self.violations.iter().map(|violation| violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Fails unless nothing is wrong *and* the run was hard enough: at least so many faults hit and unknown
    /// answers seen. The message is the whole report.
    pub fn demand(&self, faults_required: u64, unknowns_required: u64) -> Result<(), String> {
        let faults: u64 = self.counts.faults_hit.values().sum();
        let mut complaints = Vec::new();
        if !self.is_green() {
            complaints.push(format!("{} violations", self.violations.len()));
        }
        if faults < faults_required {
            complaints.push(format!("only {faults} faults hit, {faults_required} required"));
        }
        if self.counts.unknowns < unknowns_required {
            let unknowns = self.counts.unknowns;
            complaints.push(format!("only {unknowns} unknown answers, {unknowns_required} required"));
        }
        if complaints.is_empty() { Ok(()) } else { Err(format!("{}\n{self}", complaints.join("; "))) }
    }

    pub(super) fn violation(
        &mut self,
        rule: Rule,
        job: impl Into<Option<i64>>,
        events: &[u64],
        what: impl Into<String>,
    ) {
        self.violations.push(Violation { rule, job: job.into(), events: events.to_vec(), what: what.into() });
    }
}

/// A broken system breaks in a thousand places; the first ones tell the story.
const VIOLATIONS_SHOWN_MAX: usize = 50;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { events, unknowns, hand_outs, redeliveries, undrained, faults_hit } = &self.counts;
        write!(f, "{events} events, {hand_outs} hand-outs, {redeliveries} redeliveries, ")?;
        write!(f, "{unknowns} unknown answers, {undrained} undrained; faults hit:")?;
        if faults_hit.is_empty() {
            write!(f, " none")?;
        }
        for (kind, count) in faults_hit {
            write!(f, " {kind} {count}")?;
        }
        writeln!(f)?;
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN_MAX) {
            writeln!(f, "{violation}")?;
        }
        match self.violations.len().checked_sub(VIOLATIONS_SHOWN_MAX) {
            Some(more) if more > 0 => writeln!(f, "... and {more} more"),
            _ => Ok(()),
        }
    }
}
