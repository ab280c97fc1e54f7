//! The log of a run as a table.

use crate::output::{Align, Table};
use bugle::Error;
use bugle::flow::inspect::EventRow;
use bugle::flow::{Flow, RunId};
use chrono::{DateTime, SecondsFormat, Utc};

/// Events in one statement.
const PAGE: u32 = 10_000;

/// All events of a run, up to a time.
pub(super) async fn read(
    flow: &Flow,
    run: RunId,
    until: Option<DateTime<Utc>>,
) -> Result<Vec<EventRow>, Error> {
    let mut events: Vec<EventRow> = Vec::new();
    loop {
        let page = flow.list_events(run, events.last().map(EventRow::mark), PAGE).await?;
        let read = page.len();
        let is_last = u32::try_from(read).is_ok_and(|read| read < PAGE);
        let before = events.len();
        events.extend(page.into_iter().take_while(|event| until.is_none_or(|until| event.at <= until)));
        if is_last || events.len() < before + read {
            return Ok(events);
        }
    }
}

pub(super) fn table(events: &[EventRow]) -> Table {
    let mut table = Table::new(&[
        ("at", Align::Left),
        ("step", Align::Left),
        ("cause", Align::Left),
        ("move", Align::Left),
        ("attempt", Align::Right),
        ("by", Align::Left),
        ("why", Align::Left),
    ]);
    for event in events {
        let step = match (&event.step, event.idx) {
            (None, _) => "the run".to_owned(),
            (Some(step), 0) => step.clone(),
            (Some(step), idx) => format!("{step}[{idx}]"),
        };
        let moved = match &event.from_state {
            Some(from) if *from == event.to_state => event.to_state.clone(),
            Some(from) => format!("{from} → {}", event.to_state),
            None => event.to_state.clone(),
        };
        let why = [event.why.as_deref(), event.message.as_deref()];
        let why: Vec<&str> = why.into_iter().flatten().collect();
        table.row([
            event.at.to_rfc3339_opts(SecondsFormat::Micros, true), // what --at takes
            step,
            event.cause.clone(),
            moved,
            if event.attempt > 0 { event.attempt.to_string() } else { String::new() },
            event.actor.clone().unwrap_or_default(),
            why.join(": "),
        ]);
    }
    table
}
