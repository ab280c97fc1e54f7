//! The wake protocol, explored completely in small worlds (stateright): no wake-up is lost, in whatever order things happen.
//!
//! # The rules
//!
//! A bucket has two advisory locks, the bell and the mark. Code and tests name the rules by these numbers.
//!
//! 1. **Producer**: who makes a row claimable, or claimable sooner, tries the shared side of the bell in the same
//!    transaction, after the write, and keeps it to the commit. Refused: the commit rings.
//! 2. **Arm, look, wait**: the wake flag is cleared before a look is sent, never after. A new intention causes a look.
//! 3. **Look**: claims, and reports the next due time, the next lease end, and rows locked by somebody else's claim.
//! 4. **After a look**: no demand: leave. Got something, or flag set: look again. Passed over: short sleep, look.
//!    Seated: sleep. Else sit.
//! 5. **Sit**: exclusive try on the bell. Granted: drop the mark, ring if marked, look again, sleep as sentinel.
//!    Refused: take the mark, then a shared try on the bell. Refused too: covered, look again, sleep as reserve
//!    (unless a handover was heard since the question was sent). Granted: only producers are in flight; drop the
//!    mark, look again after a random moment R.
//! 6. **Sleep** until a ring, a handover, the timer, an intention, a local push, the heartbeat. Only a handover and
//!    the heartbeat make a reserve sit again.
//! 7. **Ring if marked**: exclusive try on the mark. Refused: notify the handover.
//! 8. **Leave**, or let go of the bell: unlock first, then ring if marked.
//! 9. **Every node looks** on a ring for a queue that it has demand for.
//! 10. **Heartbeat**: a look, and a reserve sits again.
//! 11. **Reconnect**: all locks are gone. If the bell was held, or may have been (a sit or a leave without an
//!     answer): ring if marked. Then look, sit.
//! 12. **Shutdown**: hand claims back (1), leave (8). Not modelled as a whole; its parts are.
//!
//! As shipped, three things differ (`rules::Variation`): a granted sit rings in its own statement; a node without
//! demand may keep its seat for a while; claims of one queue wait for each other instead of skipping rows. A fourth
//! changes nothing here, where a queue is wanted or not: an intention that joins others which wait in vain, after a
//! look that found nothing for anybody, causes no look of its own.
//!
//! # What is modelled
//!
//! One bucket: up to three nodes with one intention a queue, two queues, two producers, two rows, an abstract clock
//! with due times and leases. Every step of a node (look sent, run, committed, answer read; try, mark and test,
//! ring) interleaves with all others. Rows are visible before the lock is released or the ring delivered, as in
//! PostgreSQL. Pushes, arrivals, cancellations, lettings-go, heartbeats, crashes, lost sessions, rollbacks and
//! abandons come at any moment, in limited number (`state::Budgets`).
//!
//! *Prompt* actions are under way and will happen; *environment* actions may. A state without a prompt action is
//! *quiet*: if there is work in it and a live node wants it, a wake-up was lost (`properties`).
//!
//! Not modelled: half-open connections (a lost session is noticed promptly), statements that fail on a live session,
//! several pumps on one session, real times, the random R (see `livelock`), a look over two queues in two steps,
//! more than one fault of a kind. Small worlds are no proof; but every rule broken on purpose is found in them
//! (`broken`).
//!
//! # Reading a counterexample
//!
//! A line is an action and what it changed: `node 1 next: TryBell` is what node 1 will do in its next step, `bell`
//! and `mark` are the locks it holds, `flag` its wake flag, `inbox` what it has been sent and not read, `next_due`
//! its timer (9: none). The last line leads to the first state in which the promise is broken; usually everybody is
//! `Asleep` or `Idle` there, and a row is `Ready`. In symmetric worlds nodes are sorted after each line and may
//! change their numbers: add `.numbered()` to the configuration to stop that.
//!
//! `cargo test -p bugle-wake --test model -- --nocapture` prints the number of states of each world;
//! `BUGLE_MODEL=large` (with `--release`: minutes, and some gigabytes) explores the large ones.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test program: a panic is its answer

mod actions;
mod broken;
mod check;
mod configuration;
mod configurations;
mod cycles;
mod environment;
mod graph;
mod kept;
mod livelock;
mod look;
mod producer;
mod properties;
mod rules;
mod seat;
mod set;
mod shipped;
mod state;
mod steps;
mod symmetry;
mod trace;
