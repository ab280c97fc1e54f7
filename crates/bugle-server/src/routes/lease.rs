//! Keeping a lease.

use super::{Refusals, scoped};
use crate::access::{Pop, Scope};
use crate::answer::millis;
use crate::app::App;
use crate::body::OptionalBody;
use crate::error::Error;
use crate::params::{Path, within};
use axum::Json;
use bugle::broker::Extended;
use bugle::limits::LEASE_SECONDS_MAX;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

/// What a client gets that does not say how long.
const SECONDS: u64 = 60;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(extend))
}

#[derive(Default, Deserialize, ToSchema)]
struct ExtendRequest {
    /// From now on, in seconds; not sent: 60.
    #[schema(minimum = 1, maximum = 86_400)]
    seconds: Option<u64>,
}

/// An object, as the clients of all of Queen's versions read it; its server of 0.15 answers a list of one, in which they find nothing.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ExtendAnswer {
    lease_id: String,
    success: bool,
    error: Option<&'static str>,
    expires_at: Option<String>,
    /// The same, by the name that clients ask for.
    new_expires_at: Option<String>,
}

/// Extend a lease with all its partitions.
///
/// A lease that ends later anyway is left as it is. The lease's id is the proof that it is the caller's.
#[utoipa::path(post, path = "/api/v1/lease/{lease_id}/extend", tag = "messages", params(("lease_id" = String, Path)),
    request_body = Option<ExtendRequest>, responses(
    (status = 200, description = "Whether it is still the caller's", body = ExtendAnswer), Refusals,
))]
async fn extend(
    scope: Scope<Pop>,
    Path(lease_id): Path<String>,
    OptionalBody(request): OptionalBody<ExtendRequest>,
) -> Result<Json<ExtendAnswer>, Error> {
    let seconds = within("seconds", request.seconds.unwrap_or(SECONDS), 1, LEASE_SECONDS_MAX)?;
    let extended = match Uuid::parse_str(&lease_id) {
        Ok(token) => scope.seen().extend(token, Duration::from_secs(seconds)).await?,
        Err(_) => Extended::Lost,
    };
    let (error, until) = match extended {
        Extended::Until(until) => (None, Some(millis(until))),
        Extended::Lost => (Some("Lease not found"), None),
        Extended::Ended => (Some("Lease already expired"), None),
    };
    let (success, expires_at) = (error.is_none(), until.clone());
    Ok(Json(ExtendAnswer { lease_id, success, error, expires_at, new_expires_at: until }))
}
