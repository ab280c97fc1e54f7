//! Pushes or pops refused for a while, by every server of the installation: a row in the database, which the wake engine tells of.

use crate::error::Error;
use axum::http::StatusCode;
use bugle::Bugle;
use bugle::broker::operate::Maintenance;
use tokio::sync::watch;

/// What is refused now, as this node knows it.
#[derive(Clone)]
pub(crate) struct Refused(watch::Sender<Maintenance>);

impl Refused {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Pushes may be taken.
    pub(crate) fn check_push(&self) -> Result<(), Error> {
        if self.0.borrow().push { Err(under_maintenance("pushes")) } else { Ok(()) }
    }

    /// Pops may be made.
    pub(crate) fn allows_pop(&self) -> bool {
        !self.0.borrow().pop
    }

    /// Returns when pops are refused.
    pub(crate) async fn until_pops_are(&self) {
        let mut changes = self.0.subscribe();
        if changes.wait_for(|refused| refused.pop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// This node has just set it.
    pub(crate) fn set(&self, maintenance: Maintenance) {
        self.0.send_replace(maintenance);
    }

    /// Reads it.
    pub(crate) async fn read(&self, bugle: &Bugle) -> Result<(), bugle::Error> {
        bugle.broker().maintenance().await.map(|maintenance| self.set(maintenance))
    }
}

fn under_maintenance(what: &str) -> Error {
    let sentence = format!("{what} are refused during maintenance; try again later");
    Error::new(StatusCode::SERVICE_UNAVAILABLE, sentence)
}
