//! The one clock of a run.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock.
///
/// All processes of a machine share it, so the client itself stamps its events: `invoke` before the operation is
/// sent, the answer after it came. Stamping on arrival in the recorder would let the scheduler swap two clients'
/// lines and accuse an innocent system. The system call is made directly, not through libc: a process under a
/// faked wall clock keeps the true monotonic one.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanos
}
