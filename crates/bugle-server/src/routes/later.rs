//! Routes of Queen's that come later. They say so, rather than that there is no such route.

use super::{Refusals, scoped};
use crate::access::{Inspect, Scope};
use crate::app::App;
use crate::error::Error;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

const STREAMS: &str = "streams are not built yet: keep the state of a stream in your own tables";
const TRACES: &str = "traces are not built yet: a message carries a traceId for the tracing that you have";
const ANALYTICS: &str =
    "time series are not kept here: scrape /metrics, and ask /api/v1/resources/overview for now";

macro_rules! later {
    ($($name:ident: $method:ident $path:literal ($($param:literal),*) = $sentence:ident;)*) => {
        $(
            /// Not built yet.
            #[utoipa::path($method, path = $path, tag = "later", params($(($param = String, Path)),*), responses(
                (status = 501, description = "It comes later", body = crate::error::Failed), Refusals,
            ))]
            async fn $name(_: Scope<Inspect>) -> Error {
                Error::new(StatusCode::NOT_IMPLEMENTED, $sentence)
            }
        )*

        pub(super) fn routes() -> OpenApiRouter<App> {
            OpenApiRouter::new()$(.routes(scoped!($name)))*
        }
    };
}

later! {
    queries: post "/streams/v1/queries" () = STREAMS;
    cycle: post "/streams/v1/cycle" () = STREAMS;
    state: post "/streams/v1/state/get" () = STREAMS;
    trace: post "/api/v1/traces" () = TRACES;
    trace_names: get "/api/v1/traces/names" () = TRACES;
    traces_by_name: get "/api/v1/traces/by-name/{name}" ("name") = TRACES;
    traces_of_message: get "/api/v1/traces/{partition_id}/{transaction_id}" ("partition_id", "transaction_id") = TRACES;
    status_analytics: get "/api/v1/status/analytics" () = ANALYTICS;
    system_metrics: get "/api/v1/analytics/system-metrics" () = ANALYTICS;
    worker_metrics: get "/api/v1/analytics/worker-metrics" () = ANALYTICS;
    queue_lag: get "/api/v1/analytics/queue-lag" () = ANALYTICS;
    queue_ops: get "/api/v1/analytics/queue-ops" () = ANALYTICS;
    queue_parked: get "/api/v1/analytics/queue-parked-replicas" () = ANALYTICS;
    retention: get "/api/v1/analytics/retention" () = ANALYTICS;
    postgres_stats: get "/api/v1/analytics/postgres-stats" () = ANALYTICS;
}
