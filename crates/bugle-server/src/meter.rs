//! What this process has done since its start.

use crate::access::refuse_stranger;
use crate::app::App;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bugle::metrics::{Kind, Text};
use bugle::wake_engine::{Count, Gauge, Histogram};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// Methods that are told apart.
const METHODS: [&str; 4] = ["GET", "POST", "DELETE", "other"];
/// Answers that are told apart, by the first digit of their status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts, from all requests at once.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    routes: RwLock<BTreeMap<String, Arc<Route>>>,
    /// Requests that are not answered yet, waiting pops included.
    in_flight: Gauge,
    pub(crate) pushed: Count,
    pub(crate) duplicates: Count,
    pub(crate) popped: Count,
    pub(crate) settled: Count,
    pub(crate) dead: Count,
}

#[derive(Debug, Default)]
struct Route {
    methods: [Answers; METHODS.len()],
}

#[derive(Debug, Default)]
struct Answers {
    classes: [Count; CLASSES.len()],
    times: Histogram,
}

/// Lets in whoever may come in at all, and counts every request, by its route rather than its path: names of queues are no labels of these. One for both:
/// each layer is a kilobyte and more of every pop that waits.
pub(crate) async fn attend(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let meter = app.meter();
    let route = meter.route(request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str));
    let answers = &route.methods[place_of(request.method())];
    let _raised = meter.in_flight.raise();
    let response = match refuse_stranger(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let class = usize::from(response.status().as_u16() / 100).clamp(1, CLASSES.len()) - 1;
    answers.classes[class].one();
    answers.times.note(begun.elapsed());
    response
}

fn place_of(method: &Method) -> usize {
    METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1)
}

impl Meter {
    fn route(&self, path: &str) -> Arc<Route> {
        if let Some(route) = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(path) {
            return route.clone();
        }
        self.routes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(path.to_owned())
            .or_default()
            .clone()
    }

    /// Writes all of it.
    pub(crate) fn write(&self, text: &mut Text) {
        text.family(
            "bugle_http_requests_in_flight",
            Kind::Gauge,
            "Requests that are not answered yet, waiting pops included.",
        );
        text.sample(&[], self.in_flight.get());
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let each = || {
            routes
                .iter()
                .flat_map(|(path, route)| METHODS.iter().zip(&route.methods).map(move |(m, a)| (path, *m, a)))
        };
        text.family("bugle_http_requests_total", Kind::Counter, "Requests answered.");
        for (path, method, answers) in each() {
            for (class, count) in CLASSES.iter().zip(&answers.classes).filter(|(_, count)| count.get() > 0) {
                text.sample(&[("route", path.as_str()), ("method", method), ("status", class)], count.get());
            }
        }
        text.family(
            "bugle_http_request_seconds",
            Kind::Histogram,
            "Time to answer, the wait of a pop included.",
        );
        for (path, method, answers) in each() {
            text.histogram(&[("route", path.as_str()), ("method", method)], &answers.times);
        }
        for (name, count, help) in [
            ("bugle_messages_pushed_total", &self.pushed, "Messages pushed over HTTP."),
            (
                "bugle_messages_duplicate_total",
                &self.duplicates,
                "Messages pushed over HTTP that were there already.",
            ),
            ("bugle_messages_popped_total", &self.popped, "Messages popped over HTTP."),
            ("bugle_messages_settled_total", &self.settled, "Verdicts over HTTP that were accepted."),
            ("bugle_messages_dead_total", &self.dead, "Verdicts over HTTP that made a dead letter."),
        ] {
            text.family(name, Kind::Counter, help);
            text.sample(&[], count.get());
        }
    }
}
