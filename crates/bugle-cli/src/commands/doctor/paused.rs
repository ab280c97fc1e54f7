//! Queues that somebody paused and perhaps forgot.

use super::Patient;
use super::finding::Finding;
use crate::shell::quoted;
use crate::span;
use std::time::Duration;

/// Jobs that have become due in a paused queue are counted up to here: the count is a walk along an index.
const COUNTED_MAX: i64 = 10_000;

#[derive(sqlx::FromRow)]
struct Paused {
    namespace: String,
    queue: String,
    waiting: i64,
    at_least: bool,
    seconds: Option<f64>,
}

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let paused: Vec<Paused> = sqlx::query_as(patient.sql(include_str!("sql/paused.sql")))
        .bind(COUNTED_MAX)
        .fetch_all(&patient.pool)
        .await?;
    if paused.is_empty() {
        return Ok(vec![Finding::ok("paused", "no job waits in a queue that is paused")]);
    }
    Ok(paused.iter().map(Paused::finding).collect())
}

impl Paused {
    fn finding(&self) -> Finding {
        let elsewhere = self.namespace != "default";
        let of = if elsewhere { format!(" of namespace {}", self.namespace) } else { String::new() };
        let least = if self.at_least { "at least " } else { "" };
        let (jobs, verb) = if self.waiting == 1 { ("job", "waits") } else { ("jobs", "wait") };
        let long = self.seconds.map_or_else(String::new, |seconds| {
            let long = span::short(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            format!(", the first of them for {long}")
        });
        let flag =
            if elsewhere { format!(" --namespace {}", quoted(&self.namespace)) } else { String::new() };
        Finding::warn(
            "paused",
            format!(
                "queue {}{of} is paused, and {least}{} {jobs} {verb} in it{long}",
                self.queue, self.waiting
            ),
            format!("bugle queue resume {}{flag}, if it was not paused on purpose", quoted(&self.queue)),
        )
    }
}
