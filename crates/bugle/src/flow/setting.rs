//! How the workflows of a namespace are run: slots, wake mode, pause. What a namespace does not say it inherits from what is said for all of
//! them, and then from the options of each node.

use super::Flow;
use crate::Error;
use crate::jobs::interval;
use bugle_wake::Mode;
use sqlx::types::Json;
use std::time::Duration;

/// Whom a setting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The namespace of this handle.
    Namespace,
    /// All namespaces that say nothing themselves.
    All,
}

/// Settings to change. What is `None` stays as it is; `Some(None)` is inherited again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Settings {
    /// Slots of each node that are for this namespace alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_least: Option<Option<u32>>,
    /// Most slots of each node that this namespace may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_most: Option<Option<u32>>,
    /// Most steps of this namespace that run at once, on all nodes together: 1 to 100,000. Held by leases: what a dead worker held is free when
    /// its lease ends. Steps that wait, and what Bugle does itself, are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_most: Option<Option<u32>>,
    /// A step that is ready for longer than this and unclaimed, while somebody could take it, is an alarm.
    #[serde(rename = "stale_after_ms", skip_serializing_if = "Option::is_none", serialize_with = "millis")]
    pub stale_after: Option<Option<Duration>>,
}

impl Settings {
    /// Does it change nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[allow(clippy::option_option, clippy::ref_option)] // serde's shape
fn millis<S: serde::Serializer>(value: &Option<Option<Duration>>, to: S) -> Result<S::Ok, S::Error> {
    match value.flatten() {
        Some(time) => to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        None => to.serialize_none(),
    }
}

impl Flow {
    fn name_for(&self, whom: For) -> Option<&str> {
        (whom == For::Namespace).then(|| self.bugle.namespace().as_str())
    }

    /// Changes settings, on every node within a second.
    pub async fn set(&self, settings: &Settings, whom: For) -> Result<(), Error> {
        sqlx::query(self.statements().set_flow())
            .bind(Json(settings))
            .bind(self.name_for(whom))
            .execute(self.bugle.pool())
            .await
            .map_err(Error::executing)
            .map(drop)
    }

    /// Sets how waiters for all steps are woken, on every node within a second, now and for queues that are yet to come. `None`: inherit it
    /// again. `poll`: how often to look where the mode polls. Returns how many queues changed.
    pub async fn set_mode(
        &self,
        mode: Option<Mode>,
        poll: Option<Duration>,
        whom: For,
    ) -> Result<i32, Error> {
        sqlx::query_scalar(self.statements().set_flow_mode())
            .bind(mode.map(Mode::as_str))
            .bind(poll.map(|poll| interval("poll interval", poll)).transpose()?)
            .bind(self.name_for(whom))
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// From the moment that this returns no step begins; those that run go on, and so does what Bugle does itself: sleeps, signals, deadlines.
    /// Returns how many queues changed.
    pub async fn pause_steps(&self, whom: For) -> Result<i32, Error> {
        self.set_paused(Some(true), whom).await
    }

    /// Steps begin again, and whoever waits for them is woken. Returns how many queues changed.
    pub async fn resume_steps(&self, whom: For) -> Result<i32, Error> {
        self.set_paused(Some(false), whom).await
    }

    /// Pauses and resumes with all namespaces, not by itself. Returns how many queues changed.
    pub async fn inherit_pause(&self) -> Result<i32, Error> {
        self.set_paused(None, For::Namespace).await
    }

    async fn set_paused(&self, paused: Option<bool>, whom: For) -> Result<i32, Error> {
        sqlx::query_scalar(self.statements().pause_flow())
            .bind(paused)
            .bind(self.name_for(whom))
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}
