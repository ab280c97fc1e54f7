//! I4, I5, I10: each hand-out of a job must follow from the one before it.

use chrono::{DateTime, Utc};

use super::facts::{Facts, HandOut, Job};
use super::limits::Limits;
use super::report::{Report, Rule};
use crate::history::Op;

pub(super) fn check(facts: &Facts<'_>, limits: &Limits, report: &mut Report) {
    for job in &facts.jobs {
        tokens_are_unique(job, report);
        check_chain(facts, job, limits, report);
    }
}

fn tokens_are_unique(job: &Job<'_>, report: &mut Report) {
    let mut tokens: Vec<_> = job.hand_outs.iter().map(|it| (it.token, it.answered)).collect();
    tokens.sort_unstable();
    for pair in tokens.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let what = format!("handed out twice under token {}", pair[0].0);
        report.violation(Rule::I4, job.id, &[pair[0].1, pair[1].1], what);
    }
}

/// Walks the hand-outs in the database's order. One that does not follow from the last may follow from the one
/// before it, if a crash can have undone the last: then the undone one leaves the chain.
fn check_chain(facts: &Facts<'_>, job: &Job<'_>, limits: &Limits, report: &mut Report) {
    let mut chain: Vec<&HandOut<'_>> = Vec::new();
    for next in &job.hand_outs {
        let mut depth = chain.len();
        let mut first_complaint = None;
        loop {
            let previous = depth.checked_sub(1).map(|at| chain[at]);
            let complaint = match previous {
                None => begins(facts, job, next),
                Some(held) => follows(facts, job, held, next, limits),
            };
            let Err(complaint) = complaint else {
                chain.truncate(depth);
                first_complaint = None;
                break;
            };
            first_complaint.get_or_insert(complaint);
            match previous {
                Some(held) if facts.faults.may_be_lost((held.invoked, held.answered), next.answered) => {
                    depth -= 1;
                }
                _ => break,
            }
        }
        if let Some((rule, what)) = first_complaint {
            let events: Vec<u64> =
                chain.last().map(|held| held.answered).into_iter().chain([next.answered]).collect();
            report.violation(rule, job.id, &events, what);
        }
        chain.push(next);
    }
}

type Verdict = Result<(), (Rule, String)>;

/// The first hand-out is attempt 1, or more if claims that nobody saw answered held the job before.
fn begins(facts: &Facts<'_>, job: &Job<'_>, next: &HandOut<'_>) -> Verdict {
    let enqueued = facts.accepted(job).map_or(0, |enqueue| facts.enqueued_from(enqueue));
    let silent = facts.silent_between(job.queue, enqueued, next.answered);
    let earlier_attempts = usize::try_from(next.attempt - 1);
    if earlier_attempts.is_ok_and(|earlier| earlier <= silent) {
        return Ok(());
    }
    let what = format!("the first hand-out is attempt {}, with {silent} unseen claims", next.attempt);
    Err((Rule::I10, what))
}

fn follows(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    next: &HandOut<'_>,
    limits: &Limits,
) -> Verdict {
    if next.x <= held.x {
        return Err((Rule::I4, format!("handed out with x {} after x {}", next.x, held.x)));
    }
    if ended_for_good(job, held, next) {
        return Ok(()); // I6 and I7 judge what comes after an accepted end
    }
    let causes = Causes::of(facts, job, held, (next.answered, next.db_now), limits);
    if !causes.any() {
        let until = facts.lease_until(held, next.answered);
        let (early, who) = (until - next.db_now, held.who);
        let what = format!("handed out {early} before {who}'s lease ended, which nothing else had ended");
        return Err((Rule::I5, what));
    }
    let silent = facts.silent_between(job.queue, held.invoked, next.answered);
    if causes.explain(held.attempt, next.attempt, silent) {
        return Ok(());
    }
    let (last, now, why) = (held.attempt, next.attempt, causes.in_words());
    let what = format!("attempt {now} follows attempt {last} after {why}, with {silent} unseen claims");
    Err((Rule::I10, what))
}

fn ended_for_good(job: &Job<'_>, held: &HandOut<'_>, next: &HandOut<'_>) -> bool {
    let acked = job.endings_under(held.token).any(|it| it.op == Op::Ack && it.accepted().is_some());
    acked || job.accepted_of(Op::Cancel).any(|(_, answered)| answered < next.invoked)
}

/// How a hand-out may have come to its end before an event, by what that means for the attempt.
#[derive(Clone, Copy, Debug)]
struct Causes {
    /// Fail or expiry: the next attempt is one more.
    counted: bool,
    /// Release: the next attempt is the same.
    uncounted: bool,
}

impl Causes {
    fn of(
        facts: &Facts<'_>,
        job: &Job<'_>,
        held: &HandOut<'_>,
        (later, db_now): (u64, DateTime<Utc>),
        limits: &Limits,
    ) -> Self {
        let given_back = |op: Op| {
            job.endings_under(held.token).any(|it| it.op == op && it.possible() && it.invoked < later)
        };
        let expired = db_now >= facts.lease_until(held, later);
        // A node that gives back a dead worker's job may count the attempt or not.
        let died = limits.death_ends_lease && facts.faults.died_before(held.who, later);
        Self { counted: given_back(Op::Fail) || expired || died, uncounted: given_back(Op::Release) || died }
    }

    fn any(self) -> bool {
        self.counted || self.uncounted
    }

    /// Each unseen claim may have added one attempt more.
    fn explain(self, last: i32, now: i32, silent: usize) -> bool {
        let unseen = |added: i32| usize::try_from(now - last - added).is_ok_and(|rest| rest <= silent);
        (self.uncounted && unseen(0)) || (self.counted && unseen(1))
    }

    fn in_words(self) -> &'static str {
        match (self.counted, self.uncounted) {
            (true, false) => "a fail or an expiry",
            (false, true) => "a release",
            _ => "a fail, an expiry or a release",
        }
    }
}

/// Whether `held` may be over when event `later` happened at `db_now`: ended by anything at all.
pub(super) fn may_be_over(
    facts: &Facts<'_>,
    job: &Job<'_>,
    held: &HandOut<'_>,
    (later, db_now): (u64, DateTime<Utc>),
    limits: &Limits,
) -> bool {
    let ended = job.endings.iter().any(|it| {
        let concerns = it.op == Op::Cancel || (it.op == Op::Ack && it.token == Some(held.token));
        concerns && it.possible() && it.invoked < later
    });
    ended
        || Causes::of(facts, job, held, (later, db_now), limits).any()
        || facts.faults.may_be_lost((held.invoked, held.answered), later)
}
