//! Everything has a limit. The SQL functions refuse the same values (a test compares them), so that a trigger or a program in
//! another language gets the same answer as Rust code.

use std::time::Duration;

/// Longest schema name. Leaves room for suffixes inside PostgreSQL's 63 bytes.
pub const SCHEMA_NAME_BYTES_MAX: usize = 48;
/// Longest name of a namespace, a queue or a kind.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest idempotency key.
pub const KEY_BYTES_MAX: usize = 255;
/// Largest payload, as JSON text in PostgreSQL's spelling.
pub const PAYLOAD_BYTES_MAX: usize = 262_144;
/// Most jobs in one `enqueue_many`.
pub const ENQUEUE_JOBS_MAX: usize = 10_000;
/// Most attempts that a job may be given.
pub const ATTEMPTS_MAX: u16 = 1_000;
/// Most jobs in one claim.
pub const CLAIM_JOBS_MAX: u32 = 1_000;
/// Most steps in one claim of a worker that is not Rust: each brings its inputs.
pub const CLAIM_STEPS_MAX: u32 = 100;
/// Dead jobs read in one step of a redrive or a purge: a transaction of some milliseconds.
pub const DEAD_STEP_JOBS: i32 = 1_000;
/// Largest payload of a message, as JSON text.
pub const MESSAGE_BYTES_MAX: usize = 1_048_576;
/// Most messages in one push.
pub const PUSH_MESSAGES_MAX: usize = 10_000;
/// Most messages in one pop.
pub const POP_MESSAGES_MAX: u32 = 10_000;
/// Most partitions that one pop may lease.
pub const POP_PARTITIONS_MAX: u32 = 1_000;
/// Most verdicts in one call.
pub const SETTLE_MESSAGES_MAX: usize = 10_000;
/// Most scopes of an API key.
pub const API_KEY_SCOPES_MAX: usize = 100;
/// Shortest lease: below it a renewal could not arrive in time.
pub const LEASE_MILLISECONDS_MIN: u64 = 100;
/// Longest lease.
pub const LEASE_SECONDS_MAX: u64 = 24 * 60 * 60;
/// Longest error code kept of a failed attempt; a longer one is cut.
pub const ERROR_CODE_BYTES_MAX: usize = 100;
/// Longest error message kept of a failed attempt; a longer one is cut.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 4_000;
/// Longest name of a worker.
pub const WORKER_NAME_BYTES_MAX: usize = 255;
/// Longest delay, retry wait or key window: 100 years of 365.25 days, as PostgreSQL counts the seconds of a year. Beyond some hundred
/// thousand years, programs cannot even read the moment.
pub const DURATION_MAX: Duration = Duration::from_hours(100 * 8_766);
/// Connections that a node has beside its pool: the listener's, one for its looks, and one for its looks for ends once somebody waits for the
/// end of a job, and one for its looks for messages once somebody pops.
pub const NODE_CONNECTIONS_MAX: usize = 4;
/// Connections that each worker has beside its node's, to settle jobs while work flows.
pub const WORKER_CONNECTIONS_MAX: usize = 2;
