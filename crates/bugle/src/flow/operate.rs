//! What people do with runs and steps. Each says who did it and why, for the event log.

use super::Flow;
use super::run::RunId;
use crate::Error;
use sqlx::types::Json;
use sqlx::{PgPool, Postgres};

/// Who changes something by hand, and why: it stands in the event log.
#[derive(Debug, Clone, Copy, Default)]
pub struct By<'a> {
    /// A name that others will know.
    pub actor: Option<&'a str>,
    /// Why.
    pub reason: Option<&'a str>,
}

impl Flow {
    /// Ends a run: nothing of it begins any more, and whoever runs a step of it is told to stop. `false`: there is none that has not ended.
    pub async fn cancel(&self, run: RunId, by: By<'_>) -> Result<bool, Error> {
        let query = sqlx::query_scalar(self.statements().cancel_run()).bind(run);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Pauses a run: nothing of it begins; what runs goes on and is settled. `false`: it was paused already, or has ended.
    pub async fn pause(&self, run: RunId, by: By<'_>) -> Result<bool, Error> {
        let query = sqlx::query_scalar(self.statements().pause_run()).bind(run);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Lets a paused run go on. `false`: it was not paused.
    pub async fn resume(&self, run: RunId, by: By<'_>) -> Result<bool, Error> {
        let query = sqlx::query_scalar(self.statements().resume_run()).bind(run);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Tries a step again that failed, or that waits for its next attempt, with all its attempts anew; `element`: one of a map, from 1, or 0. What was
    /// skipped because of it waits for it again. Returns the state that it was in.
    pub async fn retry(&self, run: RunId, step: &str, element: i32, by: By<'_>) -> Result<String, Error> {
        let query = sqlx::query_scalar(self.statements().retry_step()).bind(run).bind(step).bind(element);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Ends a step by hand as if it had succeeded with this output. Returns the state that it was in.
    pub async fn resolve(
        &self,
        run: RunId,
        step: &str,
        output: serde_json::Value,
        by: By<'_>,
    ) -> Result<String, Error> {
        let query =
            sqlx::query_scalar(self.statements().resolve_step()).bind(run).bind(step).bind(Json(output));
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Ends a step by hand as skipped. Returns the state that it was in.
    pub async fn skip(&self, run: RunId, step: &str, by: By<'_>) -> Result<String, Error> {
        let query = sqlx::query_scalar(self.statements().skip_step()).bind(run).bind(step);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    /// Runs a step and all that comes after it once more, whatever became of them. Returns how many steps begin anew.
    pub async fn restart(&self, run: RunId, step: &str, by: By<'_>) -> Result<i32, Error> {
        let query = sqlx::query_scalar(self.statements().restart_from()).bind(run).bind(step);
        one(query.bind(self.namespace()).bind(by.actor).bind(by.reason), self.pool()).await
    }

    fn namespace(&self) -> &str {
        self.bugle.namespace().as_str()
    }

    fn pool(&self) -> &PgPool {
        self.bugle.pool()
    }
}

type Value<'q, T> = sqlx::query::QueryScalar<'q, Postgres, T, sqlx::postgres::PgArguments>;

async fn one<T>(query: Value<'_, T>, pool: &PgPool) -> Result<T, Error>
where
    (T,): for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
    T: Send + Unpin,
{
    query.fetch_one(pool).await.map_err(Error::executing)
}
