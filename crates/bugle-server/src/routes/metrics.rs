//! What was counted, for Prometheus.

use super::queues::{TagsQuery, seen};
use super::{Refusals, scoped};
use crate::access::{Inspect, Public, Scope};
use crate::app::App;
use crate::error::Error;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bugle::broker::Counts;
use bugle::metrics::{CONTENT_TYPE, Kind, Text};
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(metrics)).routes(scoped!(prometheus)).routes(scoped!(queues))
}

fn answer(text: Text) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text.finish()).into_response()
}

/// What this process has counted. It names no queue and asks no database.
#[utoipa::path(get, path = "/metrics", tag = "metrics", responses((status = 200, description = "In Prometheus' text format", body = str, content_type = "text/plain")))]
async fn metrics(scope: Scope<Public>) -> Response {
    answer(of_node(scope.app()))
}

/// The same, where Queen has it.
#[utoipa::path(get, path = "/metrics/prometheus", tag = "metrics", responses((status = 200, description = "In Prometheus' text format", body = str, content_type = "text/plain")))]
async fn prometheus(scope: Scope<Public>) -> Response {
    answer(of_node(scope.app()))
}

fn of_node(app: &App) -> Text {
    let mut text = Text::default();
    text.family("bugle_uptime_seconds", Kind::Gauge, "Time since the start of the server.");
    text.sample(&[], app.started().elapsed().as_secs());
    let pool = app.bugle().pool();
    let (all, idle) = (u64::from(pool.size()), u64::try_from(pool.num_idle()).unwrap_or_default());
    text.family("bugle_database_connections", Kind::Gauge, "Connections of the pool.");
    text.sample(&[("state", "idle")], idle);
    text.sample(&[("state", "in_use")], all.saturating_sub(idle));
    text.family("bugle_database_connections_max", Kind::Gauge, "Connections that the pool may have.");
    text.sample(&[], pool.options().get_max_connections());
    let counts = app.broker_counts();
    text.family(
        "bugle_database_connections_waited_for",
        Kind::Gauge,
        "Statements of pushes and acks that wait for a connection.",
    );
    text.sample(&[], counts.connections_waited_for());
    of_shares(counts, &mut text);
    app.meter().write(&mut text);
    app.bugle().write_metrics(&mut text);
    text
}

/// How many requests shared a statement: the rate of the first by the rate of the second.
fn of_shares(counts: &Counts, text: &mut Text) {
    let each = [("push", &counts.pushes), ("pop", &counts.pops), ("ack", &counts.settles)];
    text.family(
        "bugle_broker_requests_total",
        Kind::Counter,
        "Requests that were made together with others; a pop that waits counts once for each look.",
    );
    for (kind, shares) in each {
        text.sample(&[("kind", kind)], shares.requests.get());
    }
    text.family("bugle_broker_statements_total", Kind::Counter, "Statements that were sent for them.");
    for (kind, shares) in each {
        text.sample(&[("kind", kind)], shares.statements.get());
    }
}

/// What is in each queue, and how far each group is behind. Asked of the database at each scrape.
#[utoipa::path(get, path = "/metrics/queues", tag = "metrics", responses(
    (status = 200, description = "In Prometheus' text format", body = str, content_type = "text/plain"), Refusals,
))]
async fn queues(scope: Scope<Inspect>) -> Result<Response, Error> {
    let mut text = Text::default();
    let rows = seen(&scope, TagsQuery::default()).await?;
    text.family(
        "bugle_queue_messages",
        Kind::Gauge,
        "Messages of a queue: kept, open for the group furthest behind, leased, dead.",
    );
    for row in &rows {
        for (state, count) in
            [("total", row.total), ("open", row.pending), ("leased", row.leased), ("dead", row.dead)]
        {
            text.sample(&[("queue", &row.name), ("state", state)], count);
        }
    }
    text.family("bugle_group_lag_messages", Kind::Gauge, "Messages that a group has not done.");
    for row in scope.seen().list_groups(None).await?.iter().filter(|row| scope.sees(&row.queue)) {
        text.sample(&[("queue", &row.queue), ("group", &row.name)], row.lag);
    }
    steps(&scope, &mut text).await?;
    Ok(answer(text))
}

/// How deep the queues of steps are.
async fn steps(scope: &Scope<Inspect>, text: &mut Text) -> Result<(), Error> {
    let rows = scope.flow_seen().list_queues().await?;
    text.family(
        "bugle_flow_queue_steps",
        Kind::Gauge,
        "Steps of a queue (worker set): waiting for their next attempt, ready, in workers' hands.",
    );
    for row in rows.iter().filter(|row| scope.sees(&row.name)) {
        for (state, count) in [("waiting", row.scheduled), ("ready", row.ready), ("running", row.leased)] {
            text.sample(&[("queue", &row.name), ("state", state)], count);
        }
    }
    Ok(())
}
