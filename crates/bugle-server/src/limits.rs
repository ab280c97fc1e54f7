//! What the server refuses before it reaches the broker, whose own limits are in `bugle::limits`.

use std::time::Duration;

/// Largest body of a request.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Deepest nesting of arrays and objects in a body, payloads included: many readers of JSON give up at 128.
pub const JSON_DEPTH_MAX: usize = 128;
/// Most operations of one transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 10_000;
/// Longest wait of one pop.
pub const POP_WAIT_MILLISECONDS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// Longest wait of one claim of steps, and of one wait for the end of a run.
pub const FLOW_WAIT_MILLISECONDS_MAX: u64 = POP_WAIT_MILLISECONDS_MAX;
/// Longest reason that somebody may give for what he does with a run.
pub const REASON_BYTES_MAX: usize = 4_000;
/// Most rows of one answer that lists something.
pub const LIST_ROWS_MAX: u32 = 1_000;
/// The longest head of a request over HTTP/1.1. It is also what a connection reads with at a time, and keeps while its request waits: with more
/// hyper would double it for each of them.
pub const HEAD_BYTES_MAX: usize = 8_192;
/// How long the first byte of a connection and the head of a request may take to arrive. It is also how long a connection may idle between two
/// requests: longer than the clients that keep theirs for a minute.
pub const HEAD_WITHIN: Duration = Duration::from_secs(75);
/// How long the next part of a body may take to arrive.
pub const BODY_PART_WITHIN: Duration = Duration::from_secs(30);
/// How long a whole body may take to arrive: the largest one at a megabit a second.
pub const BODY_WITHIN: Duration = Duration::from_mins(2);
/// How long a client may not read at all what it is answered.
pub const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// How long requests that run may go on when the server stops. Those that wait are answered at once.
pub const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Requests that one HTTP/2 connection may have under way: thousands of waiting pops share one.
pub const STREAMS_MAX: u32 = 100_000;
