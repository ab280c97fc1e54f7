//! What Bugle does itself in workflows (ends sleeps, matches signals, sees to deadlines), done by this server as well: where all workers speak HTTP
//! nobody else would.

use crate::app::App;

/// Does it until the server stops, from the moment on at which the namespace has workflows: until then a server costs nothing more.
pub(crate) async fn run(app: App) {
    let (flow, stopping) = (app.bugle().flow(), app.stopping());
    let mut changes = app.bugle().control_changes();
    loop {
        changes.borrow_and_update(); // before anything is read: what changes meanwhile is seen
        let done = match flow.is_used().await {
            Ok(true) => flow.run_engine(stopping.clone()).await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "Sleeps, signals and deadlines of workflows are not seen to here until control changes.");
        }
        match stopping.run_until_cancelled(changes.changed()).await {
            Some(Ok(())) => {}
            _ => return,
        }
    }
}
