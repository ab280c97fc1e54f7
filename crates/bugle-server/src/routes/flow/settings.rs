//! How the workflows of the server's namespace are run: slots, wake mode, pause. What is set for all namespaces is not set here: a key is one
//! namespace's.
#![allow(clippy::option_option)] // not sent, and null

use super::{Refusals, scoped};
use crate::access::{Admin, Inspect, Need, Scope};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use crate::params::within;
use axum::Json;
use bugle::Mode;
use bugle::flow::inspect::SettingValues;
use bugle::flow::{For, Settings};
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

const DAY_MILLISECONDS: u64 = 24 * 60 * 60 * 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(show, set)).routes(scoped!(set_mode)).routes(scoped!(set_paused))
}

/// What is not sent stays as it is; null is inherited again.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SetRequest {
    /// Slots of each node that are for this namespace alone.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000)]
    slots_least: Option<Option<u32>>,
    /// Most slots of each node that it may take.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000)]
    slots_most: Option<Option<u32>>,
    /// Most steps of it that run at once, on all nodes together.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100_000)]
    steps_most: Option<Option<u32>>,
    /// A step that is ready for longer than this, while somebody could take it, is an alarm.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<u64>, minimum = 100, maximum = 86_400_000)]
    stale_after_millis: Option<Option<u64>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModeRequest {
    /// `hybrid`, `event_driven_only`, `polling_only` or `shadow`; null: as is set for all namespaces.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<String>)]
    mode: Option<Option<String>>,
    /// How often to look where the mode polls; not sent: as each node's options say.
    #[schema(minimum = 1, maximum = 86_400_000)]
    poll_interval_millis: Option<u64>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PausedRequest {
    /// true: no step begins, those that run go on; false: steps begin again; null: paused and resumed with all namespaces.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<bool>)]
    paused: Option<Option<bool>>,
}

/// How the workflows of a namespace are run.
#[derive(Serialize, ToSchema)]
struct SettingsAnswer {
    namespace: String,
    /// What it says itself.
    own: SettingsSaid,
    /// What holds for it.
    effective: SettingsSaid,
}

/// null: it is not said; of what holds: as the options of each node say.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SettingsSaid {
    slots_least: Option<u32>,
    slots_most: Option<u32>,
    steps_most: Option<u32>,
    stale_after_millis: Option<u64>,
    mode: Option<&'static str>,
    poll_interval_millis: Option<u64>,
    paused: Option<bool>,
}

impl From<SettingValues> for SettingsSaid {
    fn from(values: SettingValues) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            slots_least: values.slots_least,
            slots_most: values.slots_most,
            steps_most: values.steps_most,
            stale_after_millis: values.stale_after.map(millis),
            mode: values.mode.map(Mode::as_str),
            poll_interval_millis: values.poll_interval.map(millis),
            paused: values.paused,
        }
    }
}

/// What is there is told, also when it is null.
fn told<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn answer<N: Need>(scope: &Scope<N>) -> Result<Json<SettingsAnswer>, Error> {
    let row = scope.flow_seen().show_settings(For::Namespace).await?;
    let namespace = row.namespace.unwrap_or_default();
    Ok(Json(SettingsAnswer { namespace, own: row.own.into(), effective: row.effective.into() }))
}

/// How are the workflows of this namespace run?
#[utoipa::path(get, path = "/api/v1/flow/settings", tag = "flow", responses(
    (status = 200, description = "What it says itself, and what holds for it", body = SettingsAnswer), Refusals,
))]
async fn show(scope: Scope<Inspect>) -> Result<Json<SettingsAnswer>, Error> {
    answer(&scope).await
}

/// Set slots, how many steps run at once on all nodes, and when a step is stale; on every node within a second.
#[utoipa::path(post, path = "/api/v1/flow/settings", tag = "flow",
    request_body(content = SetRequest, example = json!({"slotsMost": 4, "staleAfterMillis": null})), responses(
    (status = 200, description = "What it says itself, and what holds for it", body = SettingsAnswer), Refusals,
))]
async fn set(scope: Scope<Admin>, Body(request): Body<SetRequest>) -> Result<Json<SettingsAnswer>, Error> {
    let flow = scope.flow_everywhere()?;
    for (what, slots) in [("slotsLeast", request.slots_least), ("slotsMost", request.slots_most)] {
        slots.flatten().map(|slots| within(what, slots.into(), 1, 1_000)).transpose()?;
    }
    request.steps_most.flatten().map(|steps| within("stepsMost", steps.into(), 1, 100_000)).transpose()?;
    let stale_after = request.stale_after_millis;
    stale_after.flatten().map(|ms| within("staleAfterMillis", ms, 100, DAY_MILLISECONDS)).transpose()?;
    let settings = Settings {
        slots_least: request.slots_least,
        slots_most: request.slots_most,
        steps_most: request.steps_most,
        stale_after: stale_after.map(|ms| ms.map(Duration::from_millis)),
    };
    if settings.is_empty() {
        return Err(Error::bad("nothing to set; send slotsLeast, slotsMost, stepsMost or staleAfterMillis"));
    }
    flow.set(&settings, For::Namespace).await?;
    answer(&scope).await
}

/// Set how those who wait for the steps of this namespace are woken, on every node within a second.
#[utoipa::path(post, path = "/api/v1/flow/settings/mode", tag = "flow",
    request_body(content = ModeRequest, example = json!({"mode": "shadow", "pollIntervalMillis": 1000})), responses(
    (status = 200, description = "What it says itself, and what holds for it", body = SettingsAnswer), Refusals,
))]
async fn set_mode(
    scope: Scope<Admin>,
    Body(request): Body<ModeRequest>,
) -> Result<Json<SettingsAnswer>, Error> {
    let flow = scope.flow_everywhere()?;
    let mode =
        request.mode.ok_or_else(|| Error::bad("mode is required; send its name, or null to inherit it"))?;
    let mode =
        mode.map(|mode| mode.parse::<Mode>()).transpose().map_err(|error| Error::bad(error.to_string()))?;
    let poll = request.poll_interval_millis;
    if mode.is_none() && poll.is_some() {
        return Err(Error::bad(
            "pollIntervalMillis is inherited with the mode; name a mode, or leave it out",
        ));
    }
    poll.map(|ms| within("pollIntervalMillis", ms, 1, DAY_MILLISECONDS)).transpose()?;
    flow.set_mode(mode, poll.map(Duration::from_millis), For::Namespace).await?;
    answer(&scope).await
}

/// Let no step of this namespace begin, or let them begin again.
///
/// Once a pause is answered none begins, on any node. Those that run go on and are settled, and so do sleeps, signals and deadlines.
#[utoipa::path(post, path = "/api/v1/flow/settings/paused", tag = "flow",
    request_body(content = PausedRequest, example = json!({"paused": true})), responses(
    (status = 200, description = "What it says itself, and what holds for it", body = SettingsAnswer), Refusals,
))]
async fn set_paused(
    scope: Scope<Admin>,
    Body(request): Body<PausedRequest>,
) -> Result<Json<SettingsAnswer>, Error> {
    let flow = scope.flow_everywhere()?;
    match request
        .paused
        .ok_or_else(|| Error::bad("paused is required; send true, false, or null to inherit it"))?
    {
        Some(true) => flow.pause_steps(For::Namespace).await?,
        Some(false) => flow.resume_steps(For::Namespace).await?,
        None => flow.inherit_pause().await?,
    };
    answer(&scope).await
}
