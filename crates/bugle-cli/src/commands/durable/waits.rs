//! What an instance waits for, read from its history.

use duroxide::{Event, EventKind};
use serde::Serialize;
use std::collections::HashSet;

/// Something that has been asked for and has not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Wait {
    /// The number of the event in which it was asked for.
    pub(super) event: u64,
    pub(super) kind: &'static str,
    /// Of the activity, the instance, the event or the queue.
    pub(super) name: Option<String>,
    /// When a timer is due, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due_ms: Option<u64>,
}

impl Wait {
    fn new(event: &Event, kind: &'static str, name: Option<&str>) -> Self {
        Self { event: event.event_id, kind, name: name.map(str::to_owned), due_ms: None }
    }

    pub(super) fn is_for_event(&self, name: &str, queue: bool) -> bool {
        self.kind == if queue { "queue" } else { "event" } && self.name.as_deref() == Some(name)
    }
}

/// Everything that is open. Completions name what they complete; an event is taken by the first who waits for its name, and by nobody when
/// there is none; what is put into a queue stays there for whoever comes.
pub(super) fn waits_for(history: &[Event]) -> Vec<Wait> {
    let settled: HashSet<u64> = history.iter().filter_map(|event| event.source_event_id).collect();
    let mut waits: Vec<Wait> = Vec::new();
    let mut queued: Vec<&str> = Vec::new();
    for event in history {
        match &event.kind {
            EventKind::OrchestrationStarted { carry_forward_events, .. } => {
                queued.extend(carry_forward_events.iter().flatten().map(|(name, _)| name.as_str()));
            }
            EventKind::ExternalEvent { name, .. } => {
                _ = take(&mut waits, |wait| wait.is_for_event(name, false));
            }
            EventKind::QueueEventDelivered { name, .. } => {
                if !take(&mut waits, |wait| wait.is_for_event(name, true)) {
                    queued.push(name);
                }
            }
            _ if settled.contains(&event.event_id) => {}
            EventKind::QueueSubscribed { name } if take(&mut queued, |queued| queued == name) => {}
            _ => waits.extend(opened(event)),
        }
    }
    waits
}

/// What an event asks for, if anything.
fn opened(event: &Event) -> Option<Wait> {
    Some(match &event.kind {
        EventKind::ActivityScheduled { name, .. } => Wait::new(event, "activity", Some(name)),
        EventKind::SubOrchestrationScheduled { instance, .. } => Wait::new(event, "instance", Some(instance)),
        EventKind::TimerCreated { fire_at_ms } => {
            Wait { due_ms: Some(*fire_at_ms), ..Wait::new(event, "timer", None) }
        }
        EventKind::ExternalSubscribed { name } => Wait::new(event, "event", Some(name)),
        EventKind::QueueSubscribed { name } => Wait::new(event, "queue", Some(name)),
        _ => return None,
    })
}

/// Removes the first that fits. Was there one?
fn take<T>(from: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> bool {
    from.iter().position(fits).map(|first| from.remove(first)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(kinds: Vec<(Option<u64>, EventKind)>) -> Vec<Event> {
        let numbered = (1..).zip(kinds);
        numbered.map(|(id, (source, kind))| Event::with_event_id(id, "i", 1, source, kind)).collect()
    }

    fn activity(name: &str) -> EventKind {
        EventKind::ActivityScheduled {
            name: name.to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        }
    }

    #[test]
    fn what_has_come_is_not_waited_for() {
        let events = history(vec![
            (None, activity("A")),
            (None, activity("B")),
            (None, EventKind::TimerCreated { fire_at_ms: 7 }),
            (Some(1), EventKind::ActivityCompleted { result: String::new() }),
        ]);
        let waits = waits_for(&events);
        assert_eq!(waits.len(), 2);
        assert_eq!((waits[0].kind, waits[0].name.as_deref()), ("activity", Some("B")));
        assert_eq!((waits[1].kind, waits[1].due_ms), ("timer", Some(7)));
    }

    #[test]
    fn an_event_is_taken_by_the_first_who_waits_for_its_name() {
        let subscribed = || EventKind::ExternalSubscribed { name: "go".to_owned() };
        let raised = |name: &str| EventKind::ExternalEvent { name: name.to_owned(), data: String::new() };
        let events = history(vec![
            (None, subscribed()),
            (None, subscribed()),
            (None, raised("stop")),
            (None, raised("go")),
        ]);
        let waits = waits_for(&events);
        assert_eq!(waits.len(), 1);
        assert!(
            waits[0].event == 2 && waits[0].is_for_event("go", false) && !waits[0].is_for_event("go", true)
        );
    }

    #[test]
    fn what_is_in_a_queue_is_taken_by_who_comes_later() {
        let subscribed = || EventKind::QueueSubscribed { name: "lines".to_owned() };
        let put = EventKind::QueueEventDelivered { name: "lines".to_owned(), data: String::new() };
        let waits = waits_for(&history(vec![(None, put), (None, subscribed()), (None, subscribed())]));
        assert_eq!(waits.iter().map(|wait| wait.event).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_wait_that_lost_a_race_is_over() {
        let events = history(vec![
            (None, EventKind::ExternalSubscribed { name: "go".to_owned() }),
            (Some(1), EventKind::ExternalSubscribedCancelled { reason: String::new() }),
        ]);
        assert_eq!(waits_for(&events), []);
    }
}
