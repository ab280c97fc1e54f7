//! Which worker set runs a step: the queue that its definition names; of those that name none, what the rules say.

use super::Flow;
use crate::Error;
use crate::jobs::ENGINE_QUEUE;
use crate::name::{NamespaceName, QueueName};
use serde::{Deserialize, Serialize};
use sqlx::PgExecutor;
use sqlx::types::Json;

/// The rules that choose worker sets are at most so many.
pub const ROUTES_MAX: usize = 1000;

/// A rule: steps of these namespaces, with at least this priority, go to this worker set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// A namespace's name, or a pattern in which `*` stands for anything.
    pub namespace: String,
    /// Steps with this priority (0, the most urgent, to 3) or a more urgent one; `None`: all.
    #[serde(default)]
    pub priority: Option<i16>,
    /// The worker set: the queue of steps that [`Flow::worker`] and [`Flow::coordinators`] name.
    pub queue: String,
}

impl Route {
    fn check(&self) -> Result<(), Error> {
        NamespaceName::parse(&self.namespace)?; // a pattern is as long, and of the same letters
        QueueName::parse(&self.queue)?;
        if self.queue == ENGINE_QUEUE {
            return Err(Error::Invalid {
                what: "worker set of a rule",
                fault: format!("is {ENGINE_QUEUE:?}, where Bugle does its own part of workflows"),
                next: "use the name of a queue that workers serve",
            });
        }
        match self.priority {
            Some(priority) if !(0..=3).contains(&priority) => Err(Error::Invalid {
                what: "priority of a rule",
                fault: format!("is {priority}"),
                next: "use 0 (the most urgent) to 3, or none for all",
            }),
            _ => Ok(()),
        }
    }
}

impl Flow {
    /// Puts these rules, for all namespaces, in the place of those that were. The first that fits a step decides; where none fits the step goes to
    /// the queue `steps`, as without rules. They are asked when a step becomes ready, and only for steps whose definition names no queue: what is
    /// ready already stays where it is.
    pub async fn set_routes(&self, routes: &[Route]) -> Result<(), Error> {
        check(routes)?;
        self.write_routes(routes, self.bugle.pool()).await
    }

    /// Changes the rules. Others who do so wait meanwhile, so that no change is lost.
    pub async fn change_routes(
        &self,
        change: impl FnOnce(Vec<Route>) -> Result<Vec<Route>, Error>,
    ) -> Result<Vec<Route>, Error> {
        let mut tx = self.bugle.begin().await.map_err(Error::connecting)?;
        sqlx::query(self.statements().lock_settings()).execute(&mut *tx).await.map_err(Error::executing)?;
        let routes = sqlx::query_as(self.statements().list_routes()).fetch_all(&mut *tx).await;
        let routes = change(routes.map_err(Error::executing)?)?;
        check(&routes)?;
        self.write_routes(&routes, &mut *tx).await?;
        tx.commit().await.map_err(Error::executing)?;
        Ok(routes)
    }

    async fn write_routes(&self, routes: &[Route], on: impl PgExecutor<'_>) -> Result<(), Error> {
        sqlx::query(self.statements().set_routes())
            .bind(Json(routes))
            .execute(on)
            .await
            .map_err(Error::executing)
            .map(drop)
    }

    /// The rules that choose worker sets, in their order.
    pub async fn routes(&self) -> Result<Vec<Route>, Error> {
        sqlx::query_as(self.statements().list_routes())
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}

fn check(routes: &[Route]) -> Result<(), Error> {
    if routes.len() > ROUTES_MAX {
        return Err(Error::Invalid {
            what: "rules",
            fault: format!("are {}", routes.len()),
            next: "use at most 1000, with patterns",
        });
    }
    routes.iter().try_for_each(Route::check)
}
