//! Cancellation: a worker that hears control asks which of its jobs are gone, and stops their handlers.

use super::leases::Leases;
use crate::jobs::Queue;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A claim that was under way when control was heard may bring a job that was cancelled just then. Looks of a queue follow one another, so
/// it is the next claim to arrive, or the one after it when that one was waiting to be started.
const CLAIMS_BEHIND: u32 = 2;
/// Before a question that was not answered is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks after every change of `control`, and after claims that may have missed one, until told to stop. Control is rare: an idle worker
/// asks nothing, and one that works asks one statement for all its jobs.
pub(super) async fn watch(
    queue: Queue,
    leases: &Leases,
    mut control: watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    let mut claims = leases.claims();
    let mut behind = 0_u32;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = control.changed() => {
                if changed.is_err() {
                    return; // the engine has stopped
                }
                behind = CLAIMS_BEHIND;
            }
            // At any other time a claim wakes nobody here.
            Ok(()) = claims.changed(), if behind > 0 => behind -= 1,
        }
        ask(&queue, leases, stop).await;
    }
}

async fn ask(queue: &Queue, leases: &Leases, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let unsettled = leases.unsettled();
        if unsettled.is_empty() {
            return;
        }
        match queue.held(&unsettled).await {
            Ok(held) => return leases.stop_gone(&unsettled, &held),
            Err(error) => tracing::warn!(%error, "cannot ask which jobs were cancelled, trying again"),
        }
        stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}
