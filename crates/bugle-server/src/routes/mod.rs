//! The routes: one file for each group of them, with what they read and answer next to their handlers.

mod ack;
mod configure;
mod counts;
mod dead;
mod flow;
mod groups;
mod health;
mod later;
mod lease;
mod messages;
mod metrics;
mod openapi;
mod pop;
mod push;
mod queues;
mod seek;
mod status;
mod system;
mod transaction;

use crate::app::App;
use crate::error::{Error, Failed};
use crate::meter::attend;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use tower_http::timeout::RequestBodyTimeoutLayer;
use utoipa::IntoResponses;
use utoipa_axum::router::OpenApiRouter;

/// Routes from handlers that carry their paths. A handler whose first argument is no scope does not compile.
macro_rules! scoped {
    ($($handler:path),+ $(,)?) => {{
        $(crate::access::is_scoped(&$handler);)+
        utoipa_axum::routes!($($handler),+)
    }};
}
pub(crate) use scoped;

/// What every route may answer instead.
#[derive(IntoResponses)]
#[allow(dead_code)] // only its description is used
pub(crate) enum Refusals {
    /// The request is wrong; the sentence says where and what to send.
    #[response(status = 400)]
    Bad(Failed),
    /// Nobody knows the caller.
    #[response(status = 401)]
    Unknown(Failed),
    /// The caller may not do this.
    #[response(status = 403)]
    Forbidden(Failed),
    /// The body did not arrive in time.
    #[response(status = 408)]
    Slow(Failed),
    /// The body is too large.
    #[response(status = 413)]
    Large(Failed),
    /// It cannot be done now. Retry-After says when to try again.
    #[response(status = 503)]
    Unavailable(Failed),
}

/// What routes may answer that are about one thing.
#[derive(IntoResponses)]
#[allow(dead_code)] // as above
pub(crate) enum Missing {
    /// There is no such thing.
    #[response(status = 404)]
    Missing(Failed),
}

/// The whole of it.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(app.clone(), attend))
        .layer(RequestBodyTimeoutLayer::new(app.patience().body_part))
        .layer(DefaultBodyLimit::disable()) // bodies are read by one extractor, which has the limit
        .with_state(app)
}

/// All routes with their descriptions.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::head())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(openapi::routes())
        .merge(push::routes())
        .merge(pop::routes())
        .merge(ack::routes())
        .merge(transaction::routes())
        .merge(lease::routes())
        .merge(configure::routes())
        .merge(queues::routes())
        .merge(messages::routes())
        .merge(dead::routes())
        .merge(groups::routes())
        .merge(seek::routes())
        .merge(status::routes())
        .merge(system::routes())
        .merge(flow::routes())
        .merge(later::routes())
}

async fn unknown_route(uri: Uri) -> Error {
    Error::missing(format!("there is no route {}; /openapi.json lists them", uri.path()))
}

async fn unknown_method(method: Method, uri: Uri) -> Error {
    let sentence = format!("{} does not answer {method}; /openapi.json lists what it does", uri.path());
    Error::new(StatusCode::METHOD_NOT_ALLOWED, sentence)
}
