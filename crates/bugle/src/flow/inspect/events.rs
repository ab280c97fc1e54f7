//! The log of a run: every move of it and of its steps.

use super::Mark;
use crate::Error;
use crate::flow::{Flow, RunId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One move of a run or of a step.
#[derive(Debug, Clone, Serialize, Deserialize, sqlx::FromRow)]
#[non_exhaustive]
pub struct EventRow {
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// Orders those of one moment.
    pub seq: i64,
    /// The step's number in the definition; 0: it is a move of the run.
    pub no: i16,
    /// Which element of a map, from 1; 0: the step itself.
    pub idx: i32,
    /// The step's name.
    pub step: Option<String>,
    /// Raised by whatever makes its job a stranger's.
    pub epoch: i32,
    /// What moved it: start, parents, claim, ack, fail, snooze, time, signal, items, deadline, cancel, pause, resume, release, retry, resolve, skip, restart or end.
    pub cause: String,
    /// The state that it was in; none: it was made.
    pub from_state: Option<String>,
    /// The state that it is in since.
    pub to_state: String,
    /// Which attempt, where it is about one.
    pub attempt: i16,
    /// Who did it: a worker or a person; none: Bugle.
    pub actor: Option<String>,
    /// Why, in a word; or what a person gave as the reason.
    pub why: Option<String>,
    /// The error in words.
    pub message: Option<String>,
    /// When it goes on by itself.
    pub due_at: Option<DateTime<Utc>>,
}

impl EventRow {
    /// Its place in the log: the next page begins behind it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { at: self.at, number: self.seq }
    }

    /// Did a person do it to a step?
    pub(in crate::flow) fn is_by_hand(&self) -> bool {
        self.no > 0 && ["retry", "resolve", "skip", "restart"].contains(&self.cause.as_str())
    }

    /// Is the step as if it had never begun from now on?
    pub(in crate::flow) fn reopens(&self) -> bool {
        self.is_by_hand() && self.to_state == "pending"
    }
}

impl Flow {
    /// At most `most` events of a run in the order in which they happened, from the beginning or behind `after`. None of a run that is not there.
    pub async fn list_events(
        &self,
        run: RunId,
        after: Option<Mark>,
        most: u32,
    ) -> Result<Vec<EventRow>, Error> {
        self.events(run, None, after, most.into()).await
    }

    pub(super) async fn events(
        &self,
        run: RunId,
        until: Option<DateTime<Utc>>,
        after: Option<Mark>,
        most: i64,
    ) -> Result<Vec<EventRow>, Error> {
        sqlx::query_as(self.statements().list_events())
            .bind(run)
            .bind(self.bugle.namespace().as_str())
            .bind(until)
            .bind(after.map(|mark| mark.at))
            .bind(after.map(|mark| mark.number))
            .bind(most)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
