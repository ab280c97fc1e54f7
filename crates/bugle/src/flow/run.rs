//! Runs: started, shown, waited for, cancelled.

use super::Flow;
use crate::jobs::JobId;
use crate::jobs::enqueue::{check_payload, interval};
use crate::{Error, Priority, crash};
use bugle_wake::Number;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use sqlx::{PgExecutor, Postgres};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The number of a run. Runs and jobs are numbered together: no job has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[sqlx(transparent)]
#[serde(transparent)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().ok().filter(|n| *n > 0).map(Self).ok_or_else(|| Error::Invalid {
            what: "number of a run",
            fault: format!("is {text:?}"),
            next: "use the number that start or `bugle flow ls` printed",
        })
    }
}

/// What has become of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// None of its steps has begun.
    Queued,
    /// Some have.
    Running,
    /// All have ended, and none failed that nothing in the definition sees to.
    Succeeded,
    /// All have ended, or the deadline came first.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl RunState {
    /// Its name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Will nothing of it happen any more, unless somebody restarts it?
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl TryFrom<String> for RunState {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        name.parse().map_err(|_| Error::Bug(format!("there is no state {name:?} of runs")))
    }
}

impl FromStr for RunState {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|state| state.as_str() == name)
            .ok_or_else(|| Error::Invalid {
                what: "state of a run",
                fault: format!("is {name:?}"),
                next: "use queued, running, succeeded, failed or cancelled",
            })
    }
}

/// A run, as [`Flow::show`] found it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// The definition's name.
    pub definition: String,
    /// The version by which it goes, to its end.
    pub version: i32,
    /// What has become of it so far.
    #[sqlx(try_from = "String")]
    pub state: RunState,
    /// Nothing of it begins until it is resumed.
    pub paused: bool,
    /// How many of its steps have not ended.
    pub steps_left: i32,
    /// By which a start of the same is recognised.
    pub key: Option<String>,
    /// What whoever started it wrote on it.
    pub tags: Option<Json<Box<RawValue>>>,
    /// When it was started.
    pub created_at: DateTime<Utc>,
    /// When its first step began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Its deadline.
    pub ends_by: Option<DateTime<Utc>>,
    /// What it was started with.
    pub input: Json<Box<RawValue>>,
}

/// A step of a run, or an element of a map.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct StepRow {
    /// Its number in the definition, from 1: parents before children.
    pub no: i16,
    /// Which element of a map, from 1; 0: the step itself.
    pub idx: i32,
    /// Its name.
    pub name: String,
    /// task, map, decision, sleep or signal.
    pub kind: String,
    /// pending, ready, running, waiting, succeeded, failed, skipped or cancelled.
    pub state: String,
    /// Attempts begun.
    pub attempt: i16,
    /// How many it has.
    pub attempts: i16,
    /// Who runs it, or ran it last.
    pub worker: Option<String>,
    /// Since when it is in this state.
    pub since: DateTime<Utc>,
    /// When it goes on by itself.
    pub due_at: Option<DateTime<Utc>>,
    /// Why it waits, was skipped, failed or was cancelled.
    pub why: Option<String>,
    /// The last error in words.
    pub message: Option<String>,
    /// Parents that have not ended.
    pub parents_left: i16,
    /// Of a map: elements that have not ended.
    pub items_left: i32,
    /// What it says of itself while it runs.
    pub progress: Option<Json<Box<RawValue>>>,
    /// What it brought about; of a map see its elements.
    pub output: Option<Json<Box<RawValue>>>,
}

/// A run about to be started: [`Flow::start`].
#[must_use = "nothing is started before `send` or `on`"]
pub struct Start<'a> {
    flow: &'a Flow,
    definition: &'a str,
    input: Result<Box<RawValue>, Error>,
    key: Option<&'a str>,
    key_window: Duration,
    version: Option<i32>,
    priority: Option<Priority>,
    tags: Option<serde_json::Value>,
    actor: Option<&'a str>,
}

impl Flow {
    /// A run of the newest version of a definition, with this input.
    pub fn start<'a>(&'a self, definition: &'a str, input: &impl Serialize) -> Start<'a> {
        let input = serde_json::value::to_raw_value(input)
            .map_err(|source| Error::Payload { kind: definition.to_owned(), source })
            .and_then(check_payload);
        Start {
            flow: self,
            definition,
            input,
            key: None,
            key_window: Duration::from_hours(24),
            version: None,
            priority: None,
            tags: None,
            actor: None,
        }
    }

    /// A run of this namespace; `None`: there is none.
    pub async fn show(&self, run: RunId) -> Result<Option<Run>, Error> {
        sqlx::query_as(self.statements().show_run())
            .bind(run)
            .bind(self.bugle.namespace().as_str())
            .fetch_optional(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// The steps of a run, the elements of a map behind it.
    pub async fn steps(&self, run: RunId) -> Result<Vec<StepRow>, Error> {
        sqlx::query_as(self.statements().show_steps())
            .bind(run)
            .bind(self.bugle.namespace().as_str())
            .bind(None::<i32>)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// A run to wait for, whoever started it.
    #[must_use]
    pub fn handle(&self, run: RunId) -> RunHandle {
        RunHandle { flow: self.clone(), id: run }
    }
}

impl<'a> Start<'a> {
    /// The same key again finds the same run, for as long as its window lasts.
    pub fn key(mut self, key: &'a str) -> Self {
        self.key = Some(key);
        self
    }

    /// How long the key counts. Default 24 hours.
    pub fn key_window(mut self, window: Duration) -> Self {
        self.key_window = window;
        self
    }

    /// Another version than the newest.
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// The priority of all its steps, instead of each step's own.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// An object that is shown with the run.
    pub fn tags(mut self, tags: serde_json::Value) -> Self {
        self.tags = Some(tags);
        self
    }

    /// Who starts it, for the event log.
    pub fn actor(mut self, actor: &'a str) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Starts it in a transaction of its own.
    pub async fn send(self) -> Result<RunHandle, Error> {
        let flow = self.flow;
        crash::point("start.before_send");
        let started = self.on(flow.bugle.pool()).await?;
        crash::point("start.after_commit");
        Ok(started)
    }

    /// Starts it on a connection of yours: inside your transaction, if there is one.
    pub async fn on<'e>(
        self,
        executor: impl PgExecutor<'e, Database = Postgres>,
    ) -> Result<RunHandle, Error> {
        let window: PgInterval = interval("key window", self.key_window)?;
        let id = sqlx::query_scalar(self.flow.statements().start_run())
            .bind(self.definition)
            .bind(Json(self.input?))
            .bind(self.key)
            .bind(window)
            .bind(self.version)
            .bind(self.priority.map(Priority::lane))
            .bind(self.tags.map(Json))
            .bind(self.flow.bugle.namespace().as_str())
            .bind(self.actor)
            .fetch_one(executor)
            .await
            .map_err(Error::executing)?;
        Ok(self.flow.handle(id))
    }
}

/// A run that was started, by whichever process, for those who wait for its end. Cheap to clone.
#[derive(Clone)]
pub struct RunHandle {
    flow: Flow,
    id: RunId,
}

impl RunHandle {
    /// The run's number.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Waits until the run has ended, also when it ended long ago; however many wait, nothing is asked of the database while nothing ends.
    pub async fn wait(&self) -> Result<Run, Error> {
        let engine = self.flow.bugle.engine_queue().await?;
        loop {
            // The intention before the look: an end that comes in between is found by it.
            let intention =
                self.flow.bugle.ends().once(Number(engine.number()).ends(), JobId(self.id.0), 1)?;
            if intention.next().await.is_none() {
                return Err(Error::NoConnection(sqlx::Error::PoolClosed)); // the engine was stopped
            }
            let run = self.flow.show(self.id).await?;
            let run = run.ok_or_else(|| Error::Bug(format!("run {} has ended and is not there", self.id)))?;
            // Somebody may have made it go on meanwhile: then it has not ended.
            if run.state.has_ended() {
                return Ok(run);
            }
        }
    }

    /// Like [`RunHandle::wait`], but no longer than that; `None` when the run has not ended by then.
    pub async fn wait_within(&self, time: Duration) -> Result<Option<Run>, Error> {
        match tokio::time::timeout(time, self.wait()).await {
            Ok(run) => run.map(Some),
            Err(_) => Ok(None),
        }
    }
}
