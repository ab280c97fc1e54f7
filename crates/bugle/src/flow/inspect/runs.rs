//! Lists of runs, and how many there are.

use super::Mark;
use crate::Error;
use crate::flow::{Flow, RunId, RunState};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::types::Json;

/// Runs of one version in one state are counted up to here: the count is a walk along an index.
pub const COUNT_MAX: i32 = 10_000;

/// Which runs to list; every field left out = any.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only of this definition, in any version.
    pub definition: Option<String>,
    /// Only in this state.
    pub state: Option<RunState>,
    /// Only those started at that time or later.
    pub started_after: Option<DateTime<Utc>>,
    /// Only those that come after this place in the list: the last row of the page before.
    pub after: Option<Mark>,
}

/// A run as a list shows it.
#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct RunRow {
    /// Its number.
    pub id: RunId,
    /// The definition's name.
    pub definition: String,
    /// The version by which it goes.
    pub version: i32,
    /// What has become of it so far.
    #[sqlx(try_from = "String")]
    pub state: RunState,
    /// Nothing of it begins until it is resumed.
    pub paused: bool,
    /// How many steps it has.
    pub steps: i32,
    /// How many of them have not ended.
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
}

impl RunRow {
    /// Its place in the list: the next page begins behind it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { at: self.created_at, number: self.id.0 }
    }
}

/// How many runs are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct StateCount {
    /// The state.
    #[sqlx(try_from = "String")]
    pub state: RunState,
    /// How many; of each version at most [`COUNT_MAX`], which means as many or more.
    pub runs: i64,
}

impl Flow {
    /// At most `most` runs of the namespace, newest first.
    pub async fn list_runs(&self, filter: &RunFilter, most: u32) -> Result<Vec<RunRow>, Error> {
        sqlx::query_as(self.statements().list_runs())
            .bind(self.bugle.namespace().as_str())
            .bind(filter.definition.as_deref())
            .bind(filter.state.map(RunState::as_str))
            .bind(filter.started_after)
            .bind(filter.after.map(|mark| mark.at))
            .bind(filter.after.map(|mark| mark.number))
            .bind(i64::from(most))
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// How many runs of the namespace, or of one of its definitions, are in each of the five states.
    pub async fn count_runs(&self, definition: Option<&str>) -> Result<Vec<StateCount>, Error> {
        sqlx::query_as(self.statements().count_runs())
            .bind(self.bugle.namespace().as_str())
            .bind(definition)
            .bind(COUNT_MAX)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
