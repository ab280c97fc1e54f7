//! The description of all routes, made from their code.

use super::scoped;
use crate::access::{Public, Scope};
use crate::app::App;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use std::sync::OnceLock;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(info(
    title = "Bugle",
    description = "Messages between services, and workflows, on PostgreSQL. The wire format of messages is that of Queen MQ 0.15.",
    license(name = "Apache-2.0 OR MIT")
))]
struct Head;

/// What stands before the routes.
pub(super) fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(document))
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses(
    (status = 200, description = "All routes, in OpenAPI 3.1", body = serde_json::Value),
))]
async fn document(_: Scope<Public>) -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    // It cannot fail: it is made of texts and lists. An empty answer is better than a panic all the same.
    let text = TEXT.get_or_init(|| super::all().into_openapi().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}
