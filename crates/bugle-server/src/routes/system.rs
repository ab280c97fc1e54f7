//! Maintenance.

use super::{Refusals, scoped};
use crate::access::{Admin, Scope};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(scoped!(maintenance, set_maintenance))
        .routes(scoped!(pop_maintenance, set_pop_maintenance))
        .routes(scoped!(refresh))
}

#[derive(Deserialize, ToSchema)]
struct SwitchRequest {
    enabled: Option<bool>,
}

impl SwitchRequest {
    fn on(&self) -> Result<bool, Error> {
        self.enabled.ok_or_else(|| Error::bad("enabled is required; send true or false"))
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MaintenanceAnswer {
    /// Pushes are refused with 503.
    maintenance_mode: bool,
    /// Pops are answered with nothing.
    pop_maintenance_mode: bool,
    /// There is no buffer: accepted means committed.
    buffered_messages: u32,
    buffer_healthy: bool,
    message: &'static str,
}

impl From<bugle::broker::operate::Maintenance> for MaintenanceAnswer {
    fn from(maintenance: bugle::broker::operate::Maintenance) -> Self {
        Self {
            maintenance_mode: maintenance.push,
            pop_maintenance_mode: maintenance.pop,
            buffered_messages: 0,
            buffer_healthy: true,
            message: match (maintenance.push, maintenance.pop) {
                (false, false) => "everything is served",
                (true, false) => "pushes are refused with 503 until maintenance ends",
                (false, true) => "pops are answered with nothing until maintenance ends",
                (true, true) => {
                    "pushes are refused with 503 and pops answered with nothing until maintenance ends"
                }
            },
        }
    }
}

/// Is there maintenance?
#[utoipa::path(get, path = "/api/v1/system/maintenance", tag = "system", responses(
    (status = 200, description = "What is refused now", body = MaintenanceAnswer), Refusals,
))]
async fn maintenance(scope: Scope<Admin>) -> Result<Json<MaintenanceAnswer>, Error> {
    Ok(Json(scope.everywhere()?.maintenance().await?.into()))
}

/// Refuse pushes for a while, on every server of the installation, or take them again.
#[utoipa::path(post, path = "/api/v1/system/maintenance", tag = "system", request_body = SwitchRequest, responses(
    (status = 200, description = "What is refused now", body = MaintenanceAnswer), Refusals,
))]
async fn set_maintenance(
    scope: Scope<Admin>,
    Body(request): Body<SwitchRequest>,
) -> Result<Json<MaintenanceAnswer>, Error> {
    set(&scope, Some(request.on()?), None).await
}

/// Is there maintenance of pops?
#[utoipa::path(get, path = "/api/v1/system/maintenance/pop", tag = "system", responses(
    (status = 200, description = "What is refused now", body = MaintenanceAnswer), Refusals,
))]
async fn pop_maintenance(scope: Scope<Admin>) -> Result<Json<MaintenanceAnswer>, Error> {
    Ok(Json(scope.everywhere()?.maintenance().await?.into()))
}

/// Answer pops with nothing for a while, on every server of the installation, or serve them again.
#[utoipa::path(post, path = "/api/v1/system/maintenance/pop", tag = "system", request_body = SwitchRequest, responses(
    (status = 200, description = "What is refused now", body = MaintenanceAnswer), Refusals,
))]
async fn set_pop_maintenance(
    scope: Scope<Admin>,
    Body(request): Body<SwitchRequest>,
) -> Result<Json<MaintenanceAnswer>, Error> {
    set(&scope, None, Some(request.on()?)).await
}

async fn set(
    scope: &Scope<Admin>,
    push: Option<bool>,
    pop: Option<bool>,
) -> Result<Json<MaintenanceAnswer>, Error> {
    let now = scope.everywhere()?.set_maintenance(push, pop).await?;
    scope.app().refused().set(now); // before the answer: whoever pushes after it is refused here
    Ok(Json(now.into()))
}

#[derive(Serialize, ToSchema)]
struct RefreshAnswer {
    success: bool,
    message: &'static str,
}

/// Nothing to refresh: every number is of the moment.
#[utoipa::path(post, path = "/api/v1/stats/refresh", tag = "system", responses(
    (status = 200, description = "It is so already", body = RefreshAnswer), Refusals,
))]
async fn refresh(_: Scope<Admin>) -> Json<RefreshAnswer> {
    Json(RefreshAnswer {
        success: true,
        message: "nothing is kept that could be old: every number is of the moment",
    })
}
