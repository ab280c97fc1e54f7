//! What a step waits for, in a sentence: what is so, and the next step if there is one.

use super::step_words::short;
use crate::shell::quoted;
use crate::span;
use bugle::flow::inspect::{MissingParent, Reason, RunWhy, StepWhy};
use chrono::{DateTime, SecondsFormat, Utc};

/// Most names in a sentence.
const NAMED_MAX: usize = 3;

pub(super) fn sentence(wait: &StepWhy, why: &RunWhy) -> String {
    let many = wait.elements.filter(|n| *n > 1);
    let elements = many.map_or_else(String::new, |n| format!("{n} elements: "));
    let since = ago(wait.since, why.now);
    let said = match &wait.reason {
        Reason::Parents { missing } => format!("waits for {}", parents(missing)),
        Reason::AtOnce { most } => format!("its turn comes later: at most {most} run at once"),
        Reason::Elements { left, failed } => {
            let elements = if *left == 1 { "element" } else { "elements" };
            let failed = if *failed > 0 { format!("; {failed} failed") } else { String::new() };
            format!("waits for {left} {elements}{failed}")
        }
        Reason::Backoff { until, attempt, attempts, message } => {
            let error = message.as_deref().map_or_else(String::new, |text| format!(": {}", short(text)));
            let (run, step) = (why.run.id, &wait.step);
            format!(
                "backs off until {}: attempt {attempt} of {attempts} failed{error}; `bugle flow retry {run} {step}{}` tries it at once",
                coming(*until, why.now),
                if wait.element > 0 { format!(" --element {}", wait.element) } else { String::new() }
            )
        }
        Reason::Signal { key, until } => {
            let until = until.map_or_else(String::new, |at| format!(" until {}", coming(at, why.now)));
            format!("waits for the signal {key}{until}; `bugle flow signal {} PAYLOAD` sends it", quoted(key))
        }
        Reason::Sleep { until } if *until <= why.now => {
            format!("has slept long enough ({}), and nobody has woken it yet", ago(*until, why.now))
        }
        Reason::Sleep { until } => format!("sleeps until {}", coming(*until, why.now)),
        Reason::RunPaused => "held back: the run is paused".to_owned(),
        Reason::Limit { most, running } => {
            format!("ready for {since}, but the namespace runs {running} of the {most} steps that it may")
        }
        Reason::QueuePaused { queue } => format!("ready for {since}, but queue {queue} is paused"),
        Reason::NoWorker { queue } => {
            format!("ready for {since}, but nobody is seen who works on queue {queue}; start a worker for it")
        }
        Reason::Unclaimed { queue, ready, workers, sleepers } => {
            let seen = if workers.is_empty() { listed(sleepers) } else { listed(workers) };
            let ready = if *ready == 1 { "1 step is".to_owned() } else { format!("{ready} steps are") };
            format!("ready for {since}; {ready} to be claimed in queue {queue}, on which {seen} works")
        }
        Reason::Running { workers, lease_until, attempt, attempts } => {
            let lease =
                lease_until.map_or_else(String::new, |at| format!(", lease until {}", coming(at, why.now)));
            format!("has run for {since} on {}, attempt {attempt} of {attempts}{lease}", listed(workers))
        }
        Reason::PutOff { until } => format!("has put itself off until {}", coming(*until, why.now)),
        Reason::LeaseEnded { workers, queue } => format!(
            "was begun {since} ago by {}, whose lease has ended; whoever looks at queue {queue} next takes it back",
            listed(workers)
        ),
        _ => format!("is {}", wait.state),
    };
    format!("{elements}{said}")
}

fn parents(missing: &[MissingParent]) -> String {
    let one = |parent: &MissingParent| {
        let on = match parent.on.as_str() {
            "failure" => ", to fail",
            "always" => ", to end",
            _ => "",
        };
        format!("{} ({}{on})", parent.step, parent.state)
    };
    match missing {
        [] => "a parent that has just ended".to_owned(),
        _ if missing.len() <= NAMED_MAX => missing.iter().map(one).collect::<Vec<_>>().join(" and "),
        _ => {
            let first: Vec<_> = missing.iter().take(NAMED_MAX).map(one).collect();
            format!("{} and {} others", first.join(", "), missing.len() - NAMED_MAX)
        }
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "somebody".to_owned(),
        [first, rest @ ..] if names.len() > NAMED_MAX => format!("{first} and {} others", rest.len()),
        _ => names.join(", "),
    }
}

/// `3s`. By the database's clock on both sides.
fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    span::short((now - at).abs().to_std().unwrap_or_default())
}

/// `2030-01-31T09:00:00Z (in 5m)`.
fn coming(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} (in {})", at.to_rfc3339_opts(SecondsFormat::Secs, true), ago(at, now))
}
