//! Looking at jobs and queues, and what a person does to them.

mod dead;
mod jobs;
mod queues;
mod rings;
mod why;

pub use dead::{DeadFilter, DeadGroup, DeadRow, DeadStep, DeadWalk};
pub use jobs::{FailedAttempt, Filter, JobDetail, JobRow};
pub use queues::{Holder, QueueDetail, QueueMore, QueueRow};
pub use rings::ProducerRings;
pub(crate) use why::is_nobody_seen;
pub use why::{AHEAD_MAX, Reason, Why};

use crate::Error;
use crate::name::SchemaName;
use sqlx::{AssertSqlSafe, PgPool};

/// Were the job rows of `schema` written in this very database cluster? After a restore into another one they were not, and
/// `rebase()` must be run.
pub async fn same_cluster(pool: &PgPool, schema: &SchemaName) -> Result<bool, Error> {
    let sql = schema.place_in(include_str!("../sql/same_cluster.sql"));
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.map_err(Error::executing)
}
