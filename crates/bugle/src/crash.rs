//! Places where a test can make the process die, to prove what survives it.
//!
//! Compiled only with the feature `crash-points`; even then nothing happens unless `BUGLE_CRASH_POINT` names a place.

/// Every crash point, in the order of a job's path. A test visits them all and fails on one that is never reached.
pub const POINTS: &[&str] = &[
    "enqueue.before_send",
    "enqueue.after_commit",
    "claim.before_send",
    "claim.after_commit",
    "claim.after_bodies",
    "renew.after_commit",
    "ack.before_send",
    "ack.after_commit",
    "fail.before_send",
    "fail.after_commit",
    "release.before_send",
    "release.after_commit",
];

/// Those in the path of a message.
pub const MESSAGE_POINTS: &[&str] = &[
    "push.before_send",
    "push.after_commit",
    "pop.before_send",
    "pop.after_commit",
    "settle.before_send",
    "settle.after_commit",
];

/// Those in the path of a run of a workflow. Its steps are carried by jobs, and share theirs.
pub const FLOW_POINTS: &[&str] = &[
    "start.before_send",
    "start.after_commit",
    "claim.before_send",
    "claim.after_commit",
    "claim.after_bodies",
    "begin.before_send",
    "begin.after_commit",
    "renew.after_commit",
    "ack.before_send",
    "ack.after_commit",
    "fail.before_send",
    "fail.after_commit",
    "engine.after_commit",
];

/// Dies here, without any clean-up, when `BUGLE_CRASH_POINT` names this place.
pub(crate) fn point(name: &'static str) {
    debug_assert!(
        [POINTS, MESSAGE_POINTS, FLOW_POINTS].iter().any(|points| points.contains(&name)),
        "crash point {name} is not listed"
    );
    #[cfg(feature = "crash-points")]
    if std::env::var("BUGLE_CRASH_POINT").is_ok_and(|wanted| wanted == name) {
        std::process::abort();
    }
}
