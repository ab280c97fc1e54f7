//! How workflows are run, namespace by namespace: what each says itself, and what holds for it; and how much there is to do.

use crate::Error;
use crate::flow::{Flow, For};
use crate::jobs::inspect::QueueRow;
use bugle_wake::Mode;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// What a namespace says about how its workflows are run, or what holds for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingValues {
    /// Slots of each node that are for it alone; none: as the options of each node say.
    pub slots_least: Option<u32>,
    /// Most slots of each node that it may take; none: as the options of each node say.
    pub slots_most: Option<u32>,
    /// Most steps of it that run at once, on all nodes together; none: no limit.
    pub steps_most: Option<u32>,
    /// After how long a step that is ready is stale; none: as the options of each node say.
    #[serde(rename = "stale_after_ms", serialize_with = "millis")]
    pub stale_after: Option<Duration>,
    /// How those who wait for its steps are woken.
    #[serde(serialize_with = "word")]
    pub mode: Option<Mode>,
    /// How often to look where the mode polls; none: as the options of each node say.
    #[serde(rename = "poll_interval_ms", serialize_with = "millis")]
    pub poll_interval: Option<Duration>,
    /// Does no step begin?
    pub paused: Option<bool>,
}

/// The settings of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingRow {
    /// Its name; none: what is said for all namespaces that say nothing themselves.
    pub namespace: Option<String>,
    /// What it says itself.
    pub own: SettingValues,
    /// What holds for it: what it says, else what is said for all.
    pub effective: SettingValues,
}

#[allow(clippy::ref_option)] // serde's shape
fn millis<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    value.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(to)
}

#[allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref)] // as above
fn word<S: Serializer>(value: &Option<Mode>, to: S) -> Result<S::Ok, S::Error> {
    value.map(Mode::as_str).serialize(to)
}

#[derive(sqlx::FromRow)]
struct Said {
    namespace: Option<String>,
    slots_least: Option<i32>,
    slots_most: Option<i32>,
    steps_most: Option<i32>,
    stale_ms: Option<i64>,
    mode: Option<String>,
    poll_us: Option<i64>,
    paused: Option<bool>,
}

impl Said {
    fn read(self) -> Result<(Option<String>, SettingValues), Error> {
        let mode = self.mode.map(|mode| mode.parse().map_err(|error| Error::Bug(format!("{error}"))));
        let values = SettingValues {
            slots_least: self.slots_least.map(i32::unsigned_abs),
            slots_most: self.slots_most.map(i32::unsigned_abs),
            steps_most: self.steps_most.map(i32::unsigned_abs),
            stale_after: self.stale_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            mode: mode.transpose()?,
            poll_interval: self.poll_us.map(|us| Duration::from_micros(us.unsigned_abs())),
            paused: self.paused,
        };
        Ok((self.namespace, values))
    }
}

impl SettingValues {
    /// What holds for a namespace that says this, as `bugle.flow_effective` has it. Mode and poll interval go together.
    fn or(&self, common: &Self) -> Self {
        let polled = if self.mode.is_some() { self } else { common };
        Self {
            slots_least: self.slots_least.or(common.slots_least),
            slots_most: self.slots_most.or(common.slots_most),
            steps_most: self.steps_most.or(common.steps_most),
            stale_after: self.stale_after.or(common.stale_after),
            mode: Some(polled.mode.unwrap_or_default()),
            poll_interval: polled.poll_interval,
            paused: Some(self.paused.or(common.paused).unwrap_or_default()),
        }
    }
}

impl Flow {
    /// Every queue of steps (worker set) of this namespace with its depth, read from maintained counters.
    pub async fn list_queues(&self) -> Result<Vec<QueueRow>, Error> {
        sqlx::query_as(self.statements().list_step_queues())
            .bind(self.bugle.namespace().as_str())
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)
    }

    /// What is said for all namespaces, then every namespace that has workflows or settings of its own, by name.
    pub async fn list_settings(&self) -> Result<Vec<SettingRow>, Error> {
        self.read_settings(None).await
    }

    /// The settings of this namespace, or those for all that say nothing themselves.
    pub async fn show_settings(&self, whom: For) -> Result<SettingRow, Error> {
        let mut rows = self.read_settings(Some(self.bugle.namespace().as_str())).await?;
        let place = rows.iter().position(|row| row.namespace.is_none() == (whom == For::All));
        place.map(|place| rows.swap_remove(place)).ok_or_else(|| Error::Invalid {
            what: "namespace",
            fault: format!("{:?} does not exist any more", self.bugle.namespace().as_str()),
            next: "list them with `bugle namespace ls`",
        })
    }

    async fn read_settings(&self, namespace: Option<&str>) -> Result<Vec<SettingRow>, Error> {
        let said: Vec<Said> = sqlx::query_as(self.statements().list_settings())
            .bind(namespace)
            .fetch_all(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        let said: Vec<_> = said.into_iter().map(Said::read).collect::<Result<_, Error>>()?;
        let common = said.iter().find(|(name, _)| name.is_none()).map(|(_, values)| values.clone());
        let common = common.unwrap_or_default();
        let row = |(namespace, own): (Option<String>, SettingValues)| {
            let effective = own.or(&common);
            SettingRow { namespace, own, effective }
        };
        Ok(said.into_iter().map(row).collect())
    }
}
