//! Waiting for what must happen, in tests.

use std::time::{Duration, Instant};

/// What must happen has happened by then, on the slowest machine. For a broken system alone.
pub const SOON: Duration = Duration::from_mins(1);
/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(5);

/// Waits until something is so.
///
/// # Panics
/// When it is not so after [`SOON`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < SOON, "waited {SOON:?} in vain: {what}");
        tokio::time::sleep(EVERY).await;
    }
}
