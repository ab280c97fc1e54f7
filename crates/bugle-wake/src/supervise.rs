//! Background tasks that must not end: one that panics is started again.

use crate::counters::Counters;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// A task that panics at once every time must not take the whole processor.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs what `make` makes until it ends by itself.
pub(crate) async fn supervise<F>(
    name: &'static str,
    counters: Arc<Counters>,
    make: impl Fn() -> F + Send + Sync,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = AbortOnDropHandle::new(tokio::spawn(make())).await {
        if !error.is_panic() {
            return;
        }
        counters.panics.one();
        tracing::error!(task = name, %error, "background task panicked and is started again");
        tokio::time::sleep(PAUSE).await;
    }
}
