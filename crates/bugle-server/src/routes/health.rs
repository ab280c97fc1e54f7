//! Is it there, and is it ready?

use super::scoped;
use crate::access::{Public, Scope};
use crate::app::App;
use crate::params::{Query, switch};
use axum::Json;
use axum::http::StatusCode;
use bugle::span::short;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

/// For so long it is a suspicion only: a connection has broken.
const SUSPECTED_FOR: Duration = Duration::from_secs(1);
/// A database that does not answer by then is not there.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(livez)).routes(scoped!(readyz)).routes(scoped!(health))
}

/// Does the process live? It asks nobody: a database that is away is no reason to restart.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200, description = "It does", body = str, content_type = "text/plain")))]
async fn livez(_: Scope<Public>) -> &'static str {
    "ok\n"
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ReadyQuery {
    /// Name what was checked, one by one.
    #[serde(default, deserialize_with = "present")]
    #[param(required = false)]
    verbose: bool,
}

/// `?verbose` alone is as good as `?verbose=true`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(true) } else { switch(serde::de::value::StringDeserializer::new(text)) }
}

/// May requests be sent here? Not before the database answers, nor when the server stops.
#[utoipa::path(get, path = "/readyz", tag = "health", params(ReadyQuery), responses(
    (status = 200, description = "They may", body = str, content_type = "text/plain"),
    (status = 400, description = "The query is wrong", body = crate::error::Failed),
    (status = 503, description = "Not now", body = str, content_type = "text/plain"),
))]
async fn readyz(scope: Scope<Public>, Query(query): Query<ReadyQuery>) -> (StatusCode, String) {
    let app = scope.app();
    let database = check_database(app).await;
    let serving = if app.stopping().is_cancelled() { Err("it stops".to_owned()) } else { Ok(()) };
    let checks = [("database", database), ("serving", serving)];
    let is_ready = checks.iter().all(|(_, check)| check.is_ok());
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let line = |(name, check): &(&str, Result<(), String>)| match check {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(fault) => format!("[-]{name} failed: {fault}\n"),
    };
    let mut text: String =
        if query.verbose || !is_ready { checks.iter().map(line).collect() } else { String::new() };
    text += if is_ready { "ok\n" } else { "not ready\n" };
    (status, text)
}

#[derive(Serialize, ToSchema)]
struct Health {
    /// `healthy` or `unhealthy`.
    status: &'static str,
    /// `connected` or `disconnected`.
    database: &'static str,
    server: &'static str,
    worker_id: u32,
    version: &'static str,
    uptime_seconds: u64,
    /// How well the process is, by the worst of the checks: `ok`, `degraded` or `failed`.
    level: &'static str,
    checks: Vec<HealthCheck>,
}

/// One thing that was checked.
#[derive(Serialize, ToSchema)]
struct HealthCheck {
    /// `listener`, `coordinators`, `fallback` or `lag`.
    name: &'static str,
    /// `ok`, `degraded` or `failed`.
    level: &'static str,
    /// Why, in a sentence.
    reason: String,
}

/// Queen's form of the same question, and how well the process is in detail. What is degraded is served all the same: the status is that of the database.
#[utoipa::path(get, path = "/health", tag = "health", responses(
    (status = 200, description = "It is well", body = Health),
    (status = 503, description = "The database does not answer", body = Health),
))]
async fn health(scope: Scope<Public>) -> (StatusCode, Json<Health>) {
    let is_there = check_database(scope.app()).await.is_ok();
    let well = scope.app().bugle().health();
    let check = |check: bugle::health::Check| HealthCheck {
        name: check.name,
        level: check.level.as_str(),
        reason: check.reason,
    };
    let health = Health {
        status: if is_there { "healthy" } else { "unhealthy" },
        database: if is_there { "connected" } else { "disconnected" },
        server: "bugle",
        worker_id: 0,
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: scope.app().started().elapsed().as_secs(),
        level: well.level().as_str(),
        checks: well.checks.into_iter().map(check).collect(),
    };
    (if is_there { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(health))
}

pub(super) async fn check_database(app: &App) -> Result<(), String> {
    // The node's own probe knows it, and one question more would be a dozen: a pool tries again by itself.
    let away = app.bugle().node().and_then(|node| node.status().away_for);
    if let Some(away) = away.filter(|away| *away > SUSPECTED_FOR) {
        return Err(format!("it has been away for {}", short(away)));
    }
    let asked = sqlx::query(include_str!("../sql/is_there.sql")).execute(app.bugle().pool());
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_WITHIN:?}")),
    }
}
