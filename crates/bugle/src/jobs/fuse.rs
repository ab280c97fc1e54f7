//! Single enqueues of many callers at once, written together, queue by queue.

use super::JobId;
use super::enqueue::Checked;
use crate::fuse::Batch;
use crate::name::QueueName;
use crate::{Bugle, Error, Outcome, crash};
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};

/// Plain jobs of a handle.
#[derive(Clone)]
pub(crate) struct Enqueues(pub(super) Bugle);

impl Batch for Enqueues {
    type Key = QueueName;
    type Call = Checked;
    type Answer = Result<JobId, Error>;
    type Kept = Option<PoolConnection<Postgres>>;

    /// What a small machine writes in some milliseconds.
    const MOST: usize = 500;

    async fn make(
        &self,
        queue: &QueueName,
        kept: &mut Option<PoolConnection<Postgres>>,
        jobs: Vec<Checked>,
    ) -> Vec<Result<JobId, Error>> {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => match self.0.pool().acquire().await.map_err(Error::connecting) {
                Ok(acquired) => acquired,
                Err(error) => return alike(jobs.len(), &error),
            },
        };
        let answers = write(&self.0, queue, &mut connection, jobs).await;
        // Where something failed it is perhaps the connection that is broken.
        *kept = answers.iter().all(Result::is_ok).then_some(connection);
        answers
    }
}

/// Writes the jobs of several calls.
async fn write(
    bugle: &Bugle,
    queue: &QueueName,
    connection: &mut PgConnection,
    jobs: Vec<Checked>,
) -> Vec<Result<JobId, Error>> {
    crash::point("enqueue.before_send");
    if jobs.len() > 1 {
        match write_fused(bugle, queue, connection, &jobs).await {
            Ok(ids) if ids.len() == jobs.len() => {
                crash::point("enqueue.after_commit");
                bugle.wake_local_by_name(queue);
                return ids.into_iter().map(Ok).collect();
            }
            Err(error) if error.outcome() == Outcome::Unknown => return alike(jobs.len(), &error),
            // Nothing was written, because of one of them or for want of the queue: each gets its own answer.
            Ok(_) | Err(_) => {}
        }
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = job.write_own(bugle, connection).await;
        crash::point("enqueue.after_commit");
        if answer.is_ok() {
            bugle.wake_local_by_name(queue);
        }
        answers.push(answer);
    }
    answers
}

async fn write_fused(
    bugle: &Bugle,
    queue: &QueueName,
    connection: &mut PgConnection,
    jobs: &[Checked],
) -> Result<Vec<JobId>, Error> {
    let ids: Vec<i64> = sqlx::query_scalar(bugle.statements().enqueue_fused())
        .bind(bugle.namespace_number())
        .bind(queue.as_str())
        .bind(jobs.iter().map(|job| job.kind.as_str()).collect::<Vec<_>>())
        .bind(jobs.iter().filter_map(|job| job.payloads.first().cloned()).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.lane).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.max_attempts).collect::<Vec<_>>())
        .fetch_all(connection)
        .await
        .map_err(Error::executing)?;
    Ok(ids.into_iter().map(JobId).collect())
}

/// The same answer for all.
fn alike(count: usize, error: &Error) -> Vec<Result<JobId, Error>> {
    (0..count).map(|_| Err(error.again())).collect()
}
