//! Judges a history: the rules I1 to I11 and I14.
//!
//! The checker knows nothing of how Bugle works inside. It reads what clients saw ([`History`]), what the tables
//! held at the end ([`Snapshot`]) and what was promised ([`Limits`]), and lists every contradiction.
//!
//! | Rule | Says | File |
//! |---|---|---|
//! | I0 | the record itself can be judged: answers have invokes, required fields are there | `gather` |
//! | I1 | no loss: an accepted job is finished by an ack, cancelled by a cancel, dead after its attempts, or still there | `loss` |
//! | I2 | no phantom: what is handed out was enqueued; an unanswered enqueue appears at most once | `origin` |
//! | I3 | one key, one job | `origin` |
//! | I4 | a job's `x` grows from hand-out to hand-out; no token twice | `chain`, `rows` |
//! | I5 | one holder: nobody is handed a job that another still holds | `chain` |
//! | I6 | fencing: an older token finishes, fails, releases, renews nothing | `fencing` |
//! | I7 | ended is ended: no hand-out, no second end after an accepted one | `fencing` |
//! | I8 | order: per order key, one at a time, first hand-outs in enqueue order | `order` |
//! | I9 | not early, by the database's clock | `early` |
//! | I10 | a redelivery has a cause, and counts its attempts by it | `chain` |
//! | I11 | bounds: attempts, pick-up time, time to drain | `bounds`, `pick_up`, `rows` |
//! | I14 | the books balance: one state per job, counters equal rows | `books` |
//!
//! Messages are judged by [`messages::check`], by rules of their own, M1 to M6.
//!
//! A redelivery that breaks in while the job is still held is I5; I10 judges the one that comes after a legal end
//! but counts its attempt wrongly.
//!
//! ```
//! use bugle_testkit::checker::{Limits, QueueSnapshot, Snapshot, check};
//! use bugle_testkit::history::{Event, Item, Op, Recorder};
//!
//! let recorder = Recorder::new();
//! let call = recorder.client().invoke(Event::new("producer#1", Op::Enqueue).queue("mail").items([Item::default()]))?;
//! call.ok(|answer| answer.items([Item::job(7)]))?;
//!
//! let mut mail = QueueSnapshot::default(); // read from the tables when the run is over
//! mail.done.push(7);
//! let snapshot = Snapshot { queues: [("mail".to_owned(), mail)].into() };
//! let report = check(&recorder.history(), &snapshot, &Limits::default());
//! assert_eq!(report.violations[0].to_string(), "I1 job 7: done, although nobody acked it (events [2])");
//! assert!(report.demand(1, 1).is_err(), "and the run met no fault");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What a crash of the server may undo
//!
//! Claims commit asynchronously. A hand-out answered before a crash may be gone after it: the row, or an older row
//! of the same job, is handed out again. The checker then drops the lost hand-out from the job's chain, unless an
//! ack that was invoked after the hand-out's answer was itself accepted before the crash: that ack flushed the log.
//!
//! # What it takes for granted
//!
//! The database's clock does not jump back: a job's hand-outs are ordered by it. Keys live longer than the run.
//! Acks are flushed before they are answered.

use crate::history::History;

mod books;
mod bounds;
mod chain;
mod early;
mod facts;
mod faults;
mod fencing;
mod gather;
mod limits;
mod loss;
pub mod messages;
mod order;
mod origin;
mod pick_up;
mod report;
mod rows;
mod snapshot;

pub use limits::Limits;
pub use report::{Counts, Report, Rule, Violation};
pub use snapshot::{Counters, QueueSnapshot, Row, Snapshot};

/// Holds `history` and the final `snapshot` against the rules.
///
/// Sorts each job's hand-outs once; all else is linear in the number of events and jobs.
#[must_use]
pub fn check(history: &History, snapshot: &Snapshot, limits: &Limits) -> Report {
    let (mut facts, mut report) = gather::gather(history, limits);
    facts.sort();
    let states = snapshot.states();
    origin::check(&facts, snapshot, &mut report);
    chain::check(&facts, limits, &mut report);
    fencing::check(&facts, &mut report);
    order::check(&facts, &states, limits, &mut report);
    early::check(&facts, &mut report);
    bounds::check(&facts, &states, limits, &mut report);
    pick_up::check(&facts, limits, &mut report);
    loss::check(&facts, &states, &mut report);
    rows::check(&facts, snapshot, &mut report);
    books::check(&facts, snapshot, &states, &mut report);
    report.violations.sort_by_key(|violation| (violation.rule, violation.job));
    report
}
