//! The statements behind an enqueue: plain jobs take the short way.

use super::JobId;
use super::enqueue::Checked;
use crate::limits::ENQUEUE_JOBS_MAX;
use crate::name::Key;
use crate::{Bugle, Error};
use sqlx::{PgConnection, PgExecutor};

impl Checked {
    /// May it be written together with others?
    pub(super) fn is_plain(&self) -> bool {
        self.key.is_none() && self.due_at.is_none() && self.delay.is_none() && self.extra.is_none()
    }

    /// Writes the job in a transaction of its own. One that others stood in the way of for a moment is tried once more, before anybody
    /// is bothered with it: in a caller's transaction only the caller can do that.
    pub(super) async fn write_own(
        &self,
        bugle: &Bugle,
        connection: &mut PgConnection,
    ) -> Result<JobId, Error> {
        match self.write_one(bugle, &mut *connection).await {
            Err(error) if error.is_passing() => self.write_one(bugle, connection).await,
            answer => answer,
        }
    }

    pub(super) async fn write_one<'e>(
        &self,
        bugle: &Bugle,
        executor: impl PgExecutor<'e>,
    ) -> Result<JobId, Error> {
        if self.is_plain() {
            return self.write_plain(bugle, executor).await;
        }
        sqlx::query_scalar(bugle.statements().enqueue())
            .bind(self.queue.as_str())
            .bind(self.kind.as_str())
            .bind(self.payloads.first())
            .bind(self.due_at)
            .bind(self.delay.as_ref())
            .bind(self.lane)
            .bind(self.key.as_ref().map(Key::as_str))
            .bind(self.key_window)
            .bind(self.max_attempts)
            .bind(bugle.namespace().as_str())
            .bind(self.extra.as_ref())
            .fetch_one(executor)
            .await
            .map_err(Error::executing)
    }

    async fn write_plain<'e>(&self, bugle: &Bugle, executor: impl PgExecutor<'e>) -> Result<JobId, Error> {
        sqlx::query_scalar(bugle.statements().enqueue_plain())
            .bind(bugle.namespace_number())
            .bind(self.queue.as_str())
            .bind(self.lane)
            .bind(self.max_attempts)
            .bind(self.kind.as_str())
            .bind(self.payloads.first())
            .bind(bugle.namespace().as_str())
            .fetch_one(executor)
            .await
            .map_err(Error::executing)
    }

    pub(super) async fn write_many<'e>(
        &self,
        bugle: &Bugle,
        executor: impl PgExecutor<'e>,
    ) -> Result<Vec<JobId>, Error> {
        if self.payloads.len() > ENQUEUE_JOBS_MAX {
            return Err(Error::Invalid {
                what: "number of jobs",
                fault: format!("is {}, over the limit of {ENQUEUE_JOBS_MAX}", self.payloads.len()),
                next: "enqueue them in several calls",
            });
        }
        if self.is_plain() {
            return self.write_many_plain(bugle, executor).await;
        }
        let ids: Vec<i64> = sqlx::query_scalar(bugle.statements().enqueue_many())
            .bind(self.queue.as_str())
            .bind(self.kind.as_str())
            .bind(&self.payloads)
            .bind(self.due_at)
            .bind(self.delay.as_ref())
            .bind(self.lane)
            .bind(self.max_attempts)
            .bind(bugle.namespace().as_str())
            .fetch_one(executor)
            .await
            .map_err(Error::executing)?;
        Ok(ids.into_iter().map(JobId).collect())
    }

    async fn write_many_plain<'e>(
        &self,
        bugle: &Bugle,
        executor: impl PgExecutor<'e>,
    ) -> Result<Vec<JobId>, Error> {
        let ids: Vec<i64> = sqlx::query_scalar(bugle.statements().enqueue_many_plain())
            .bind(bugle.namespace_number())
            .bind(self.queue.as_str())
            .bind(self.lane)
            .bind(self.max_attempts)
            .bind(self.kind.as_str())
            .bind(&self.payloads)
            .bind(bugle.namespace().as_str())
            .fetch_one(executor)
            .await
            .map_err(Error::executing)?;
        Ok(ids.into_iter().map(JobId).collect())
    }
}
