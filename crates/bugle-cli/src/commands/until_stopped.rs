//! Commands that go on until somebody stops them.

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::place::Place;
use bugle::pg::embedded::Stay;
use tokio_util::sync::CancellationToken;

/// Opens the place and does the work in it. The first signal to stop is told to the work, or ends the opening; a second one ends the process.
pub(crate) async fn until_stopped(
    global: &Global,
    work: impl AsyncFnOnce(&Place, CancellationToken) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let stop = CancellationToken::new();
    let signals = tokio::spawn({
        let stop = stop.clone();
        async move {
            let first = interrupt::first_then_die().await;
            stop.cancel();
            first
        }
    });
    let Some(opened) = stop.run_until_cancelled(Place::open(global, Stay::Long)).await else {
        let signal = signals.await.ok().and_then(Result::ok).unwrap_or_default();
        return Err(Failure::interrupted(signal));
    };
    let place = opened?;
    let worked = match work(&place, stop).await {
        Ok(()) => Ok(Exit::Ok),
        Err(failure) => Err(place.reason(failure).await),
    };
    let closed = place.close(false).await;
    let exit = worked?;
    closed.map(|()| exit)
}
