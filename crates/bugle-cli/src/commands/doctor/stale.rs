//! Steps of workflows that are ready, and that nobody takes.

use super::Patient;
use super::finding::Finding;
use crate::shell::quoted;
use crate::span;
use std::time::Duration;

#[derive(sqlx::FromRow)]
struct Stale {
    namespace: String,
    queue: String,
    mode: String,
    seconds: f64,
    sleeps: bool,
}

pub(super) async fn check(patient: &Patient<'_>) -> Result<Vec<Finding>, sqlx::Error> {
    let sql = patient.sql(include_str!("sql/stale_steps.sql"));
    let stale: Vec<Stale> = sqlx::query_as(sql).fetch_all(&patient.pool).await?;
    if stale.is_empty() {
        return Ok(vec![Finding::ok(
            "stale steps",
            "no step is ready for longer than it may while nobody works on its queue",
        )]);
    }
    Ok(stale.iter().map(Stale::finding).collect())
}

impl Stale {
    fn finding(&self) -> Finding {
        let (elsewhere, queue) = (self.namespace != "default", quoted(&self.queue));
        let of = if elsewhere { format!(" of namespace {}", self.namespace) } else { String::new() };
        let flag =
            if elsewhere { format!(" --namespace {}", quoted(&self.namespace)) } else { String::new() };
        let long = span::short(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let found =
            format!("a step in queue {}{of} has been ready for {long}, and nobody works on it", self.queue);
        if self.sleeps {
            let found = format!("{found}, although a node sleeps that may be there for it ({})", self.mode);
            let fix = format!(
                "look for its worker with `bugle queue show {queue}{flag}`; if it is there a wake was missed, and `bugle flow mode hybrid{flag}` has a fallback for that"
            );
            return Finding::warn("stale steps", found, fix);
        }
        Finding::warn(
            "stale steps",
            found,
            format!("start a worker for it; `bugle queue show {queue}{flag}` says who is there"),
        )
    }
}
