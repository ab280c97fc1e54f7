//! Maintenance: pushes or pops refused for a while, by every server of the installation.

use crate::Error;
use crate::broker::Broker;

/// What is refused now. The database refuses nothing: servers obey it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Maintenance {
    /// Pushes are.
    pub push: bool,
    /// Pops are.
    pub pop: bool,
}

impl Broker {
    /// What is refused now, in the whole installation. [`crate::Bugle::control_changes`] tells when to ask again.
    pub async fn maintenance(&self) -> Result<Maintenance, Error> {
        sqlx::query_as(self.statements().maintenance())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// Refuses pushes or pops, or takes them again; `None` leaves it as it is. Every node is told.
    pub async fn set_maintenance(&self, push: Option<bool>, pop: Option<bool>) -> Result<Maintenance, Error> {
        sqlx::query_as(self.statements().set_maintenance())
            .bind(push)
            .bind(pop)
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
