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
/// Dead jobs read in one step of a redrive or a purge: a transaction of some milliseconds.
pub const DEAD_STEP_JOBS: i32 = 1_000;
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
/// Longest delay, retry wait or key window: 100 years. Beyond some hundred thousand years, programs cannot even read the moment.
pub const DURATION_MAX: Duration = Duration::from_hours(100 * 365 * 24);
