//! Beginning steps whose jobs were claimed: those of many slots together, with one statement.

use super::Flow;
use crate::fuse::Batch;
use crate::jobs::{Claimed, Verdict};
use crate::{Bugle, Error, crash};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::types::Json;
use std::sync::Arc;
use std::time::Duration;

/// What a job carries: which step of which run, which element of a map, and whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub(super) struct Place(pub(super) i64, pub(super) i16, pub(super) i32, pub(super) i32);

impl Place {
    /// A text that is the same in every attempt of a step and belongs to no other. With when the run was made: the numbers alone would be those of a
    /// run in somebody else's database as well.
    pub(super) fn idempotency_key(self, created_micros: i64) -> String {
        let Self(run, no, index, _) = self;
        format!("bugle-{run}-{no}-{index}-{created_micros:x}")
    }
}

/// What is begun.
pub(crate) struct Begin {
    pub(super) place: Place,
    attempt: i16,
    token: i64,
}

impl Begin {
    pub(super) fn of(job: &Claimed) -> Result<Self, serde_json::Error> {
        let attempt = i16::try_from(job.attempt).unwrap_or(i16::MAX);
        Ok(Self { place: serde_json::from_str(job.payload.get())?, attempt, token: job.receipt.token() })
    }
}

/// What a step needs to run, or why it does not.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Begun {
    n: i32,
    pub(super) verdict: String,
    pub(super) step: String,
    pub(super) definition: String,
    pub(super) version: i32,
    pub(super) created_at: DateTime<Utc>,
    pub(super) attempts: i16,
    pub(super) timeout_ms: Option<i64>,
    pub(super) input: Option<Json<Box<RawValue>>>,
    pub(super) parents: Option<Json<Box<RawValue>>>,
    pub(super) element: Option<Json<Box<RawValue>>>,
    pub(super) checkpoint: Option<Json<Box<RawValue>>>,
    /// How long it had been ready; none of one that was lost, or waited for its next attempt.
    ready_us: Option<i64>,
}

impl Begun {
    /// Of a job that carries a step of a run that was removed: it has only to be ended.
    fn of_nothing(n: i32) -> Self {
        Self {
            n,
            verdict: "gone".to_owned(),
            step: String::new(),
            definition: String::new(),
            version: 0,
            created_at: DateTime::UNIX_EPOCH,
            attempts: 0,
            timeout_ms: None,
            input: None,
            parents: None,
            element: None,
            checkpoint: None,
            ready_us: None,
        }
    }

    /// How long it had been ready.
    pub(super) fn was_ready_for(&self) -> Option<Duration> {
        self.ready_us.map(|us| Duration::from_micros(us.unsigned_abs()))
    }
}

impl Flow {
    /// Says that a worker begins a step, and asks what it needs; with others who do the same at the same time.
    pub(super) async fn begin(&self, worker: &Arc<str>, wish: Begin) -> Result<Begun, Error> {
        let (batch, fuse) = (Begins(self.bugle.clone()), &self.bugle.flow_shared().begins);
        let answer = fuse.call(&batch, worker.clone(), wish).await;
        answer.unwrap_or_else(|| Err(Error::timed_out()))
    }
}

/// What becomes of a step whose last attempt never came back.
pub(super) fn lost() -> Verdict {
    Verdict::dead("lease_expired", "its last attempt ended with its lease: the worker died, or hung")
}

/// Steps that one worker begins.
#[derive(Clone)]
pub(crate) struct Begins(pub(super) Bugle);

impl Batch for Begins {
    /// The worker.
    type Key = Arc<str>;
    type Call = Begin;
    type Answer = Result<Begun, Error>;
    type Kept = ();

    /// Each brings its inputs.
    const MOST: usize = 100;

    async fn make(&self, worker: &Arc<str>, (): &mut (), calls: Vec<Begin>) -> Vec<Result<Begun, Error>> {
        let mut connection = match self.0.connection().await {
            Ok(connection) => connection,
            Err(error) => return calls.iter().map(|_| Err(error.again())).collect(),
        };
        crash::point("begin.before_send");
        let begun: Result<Vec<Begun>, _> = sqlx::query_as(self.0.flow_shared().statements.begin_steps())
            .bind(calls.iter().map(|call| call.place.0).collect::<Vec<_>>())
            .bind(calls.iter().map(|call| call.place.1).collect::<Vec<_>>())
            .bind(calls.iter().map(|call| call.place.2).collect::<Vec<_>>())
            .bind(calls.iter().map(|call| call.place.3).collect::<Vec<_>>())
            .bind(calls.iter().map(|call| call.attempt).collect::<Vec<_>>())
            .bind(calls.iter().map(|call| call.token).collect::<Vec<_>>())
            .bind(&**worker)
            .fetch_all(&mut *connection)
            .await;
        match begun.map_err(Error::executing) {
            Ok(mut begun) => {
                crash::point("begin.after_commit");
                begun.sort_by_key(|begun| begun.n);
                let mut rows = begun.into_iter().peekable();
                let row = |n| rows.next_if(|row| row.n == n).unwrap_or_else(|| Begun::of_nothing(n));
                (1..).take(calls.len()).map(row).map(Ok).collect()
            }
            Err(error) => calls.iter().map(|_| Err(error.again())).collect(),
        }
    }
}
