//! The log, and how far the groups have read it: M1, M2 and M3.

use super::facts::{Facts, History};
use super::{Books, Logged};
use crate::checker::report::{Report, Rule};
use crate::history::Op;
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) fn check(facts: &Facts<'_>, books: &Books, report: &mut Report) {
    let mut places: HashMap<u64, (&str, i64)> = HashMap::new();
    for (partition, log) in &books.log {
        numbers(partition, log, report);
        for logged in log {
            if let Some((other, seq)) = places.insert(logged.mark, (partition, logged.seq)) {
                let what =
                    format!("mark {} stands in {other} at {seq} and again in {partition}", logged.mark);
                report.violation(Rule::M2, logged.seq, &[], what);
            }
            if !facts.pushes.contains_key(&logged.mark) {
                let what = format!("mark {} in {partition} was never pushed", logged.mark);
                report.violation(Rule::M2, logged.seq, &[], what);
            }
        }
    }
    accepted(facts, &places, report);
    order(facts, &places, report);
    for (lane, history) in &facts.lanes {
        gaps(lane.1, history, books, report);
    }
    for ((group, partition), cursor) in &books.cursors {
        let empty = History::default();
        let history = facts.lanes.get(&(group.as_str(), partition.as_str())).unwrap_or(&empty);
        let log = books.log.get(partition).map_or(&[][..], Vec::as_slice);
        done(group, partition, *cursor, history, log, report);
    }
}

/// `n` has no gaps: whatever stood between two messages is gone.
fn numbers(partition: &str, log: &[Logged], report: &mut Report) {
    for (place, logged) in (1_i64..).zip(log) {
        if logged.n != place {
            let what = format!("message {place} of {partition} has the number {}", logged.n);
            return report.violation(Rule::M2, logged.seq, &[], what);
        }
    }
}

/// What was accepted stands where its producer was told.
fn accepted(facts: &Facts<'_>, places: &HashMap<u64, (&str, i64)>, report: &mut Report) {
    for (mark, push) in &facts.pushes {
        let Some(answered) = push.answered else { continue };
        let there = places.get(mark);
        let fits = there.is_some_and(|(partition, seq)| {
            *partition == push.partition && push.seq.is_none_or(|told| told == *seq)
        });
        if !fits {
            let what = format!(
                "mark {mark} was accepted into {} at {:?} and is {there:?}",
                push.partition, push.seq
            );
            report.violation(Rule::M1, push.seq, &[push.invoked, answered], what);
        }
    }
}

/// Of one producer in one partition: behind everything that was answered before it was pushed.
fn order(facts: &Facts<'_>, places: &HashMap<u64, (&str, i64)>, report: &mut Report) {
    // By producer and partition: invoked, answered, and the place.
    type Pushes = Vec<(u64, Option<u64>, i64)>;
    let mut producers: BTreeMap<(&str, &str), Pushes> = BTreeMap::new();
    for (mark, push) in &facts.pushes {
        if let Some((partition, seq)) = places.get(mark) {
            producers.entry((push.who, partition)).or_default().push((push.invoked, push.answered, *seq));
        }
    }
    for ((who, partition), mut pushes) in producers {
        pushes.sort_unstable();
        let mut answered: Vec<(u64, i64)> =
            pushes.iter().filter_map(|(_, n, seq)| Some(((*n)?, *seq))).collect();
        answered.sort_unstable();
        let (mut next, mut furthest) = (0, i64::MIN);
        for (invoked, _, seq) in pushes {
            while let Some((_, before)) = answered.get(next).filter(|(n, _)| *n < invoked) {
                furthest = furthest.max(*before);
                next += 1;
            }
            if seq < furthest {
                let what = format!(
                    "{who} pushed it to {partition} after {furthest} was answered, and it stands before"
                );
                report.violation(Rule::M3, seq, &[invoked], what);
            }
        }
    }
}

/// A claim is a piece of the log: in its order, and with nothing left out.
fn gaps(partition: &str, history: &History<'_>, books: &Books, report: &mut Report) {
    let Some(log) = books.log.get(partition) else { return };
    for claim in &history.claims {
        let Some((first, _)) = claim.messages.first() else { continue };
        let begin = log.partition_point(|logged| logged.seq < *first);
        let there = log[begin..].iter().map(|logged| (logged.seq, logged.mark)).take(claim.messages.len());
        if !there.eq(claim.messages.iter().copied()) {
            let what =
                format!("{} was handed messages of {partition} that are no piece of the log", claim.who);
            report.violation(Rule::M2, *first, &[claim.answered], what);
        }
    }
}

/// Nothing is done that was not handed out and then acked, as far as anybody can tell; and in the end everything is done.
fn done(
    group: &str,
    partition: &str,
    cursor: i64,
    history: &History<'_>,
    log: &[Logged],
    report: &mut Report,
) {
    let mut acked: HashSet<i64> = HashSet::new();
    for claim in &history.claims {
        let acks =
            history.endings.iter().filter(|it| it.op == Op::Ack && it.token == claim.token && it.possible());
        let up_to = acks.map(|ack| ack.seq).max().unwrap_or(i64::MIN);
        acked.extend(claim.messages.iter().map(|(seq, _)| *seq).filter(|seq| *seq <= up_to));
    }
    for logged in log {
        let what = match (logged.seq <= cursor, acked.contains(&logged.seq)) {
            (true, true) => continue,
            (true, false) => format!("{group} has passed it in {partition}, although nobody acked it"),
            (false, _) => format!("{group} has never done it in {partition}, where its cursor is {cursor}"),
        };
        report.violation(Rule::M1, logged.seq, &[], what);
    }
}
