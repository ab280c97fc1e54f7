//! Work items and events as rows.

use crate::store::interval;
use duroxide::Event;
use duroxide::providers::{ProviderError, WorkItem};
use serde::Deserialize;
use sqlx::postgres::types::PgInterval;
use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The instance that a work item of the orchestrator's queue is for, and its kind: may it begin an instance, is it worthless without one?
fn addressee(item: &WorkItem) -> Option<(&str, &'static str)> {
    Some(match item {
        WorkItem::StartOrchestration { instance, .. } | WorkItem::ContinueAsNew { instance, .. } => {
            (instance, "start")
        }
        WorkItem::QueueMessage { instance, .. } => (instance, "queue"),
        WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::CancelInstance { instance, .. } => (instance, "other"),
        WorkItem::SubOrchCompleted { parent_instance, .. }
        | WorkItem::SubOrchFailed { parent_instance, .. } => (parent_instance, "other"),
        WorkItem::ActivityExecute { .. } => return None,
    })
}

/// A message for an instance.
pub(crate) struct Message {
    pub(crate) instance: String,
    pub(crate) kind: &'static str,
    pub(crate) item: String,
}

impl Message {
    pub(crate) fn new(operation: &str, item: &WorkItem) -> Result<Self, ProviderError> {
        let (instance, kind) = addressee(item).ok_or_else(|| {
            ProviderError::permanent(operation, "this work item is not for an orchestration")
        })?;
        Ok(Self { instance: instance.to_owned(), kind, item: serialised(operation, item)? })
    }
}

/// Messages as columns.
#[derive(Default)]
pub(crate) struct Messages {
    pub(crate) instance: Vec<String>,
    pub(crate) kind: Vec<&'static str>,
    pub(crate) item: Vec<String>,
    pub(crate) delay: Vec<PgInterval>,
}

impl Messages {
    /// A timer is told to the database as the time that is left: the clocks of node and database are never compared.
    pub(crate) fn new(operation: &str, items: &[WorkItem]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for item in items {
            let message = Message::new(operation, item)?;
            let delay = match item {
                WorkItem::TimerFired { fire_at_ms, .. } => {
                    Duration::from_millis(*fire_at_ms).saturating_sub(now)
                }
                _ => Duration::ZERO,
            };
            columns.instance.push(message.instance);
            columns.kind.push(message.kind);
            columns.item.push(message.item);
            columns.delay.push(interval(delay));
        }
        Ok(columns)
    }
}

/// Work as columns.
#[derive(Default)]
pub(crate) struct Activities {
    pub(crate) instance: Vec<Option<String>>,
    pub(crate) execution: Vec<Option<i64>>,
    pub(crate) activity: Vec<Option<i64>>,
    pub(crate) session: Vec<Option<String>>,
    pub(crate) tag: Vec<Option<String>>,
    pub(crate) item: Vec<String>,
}

impl Activities {
    pub(crate) fn new(operation: &str, items: &[WorkItem]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for item in items {
            let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
                return Err(ProviderError::permanent(operation, "this work item is not an activity"));
            };
            columns.instance.push(Some(instance.clone()));
            columns.execution.push(Some(signed(*execution_id)));
            columns.activity.push(Some(signed(*id)));
            columns.session.push(session_id.clone());
            columns.tag.push(tag.clone());
            columns.item.push(serialised(operation, item)?);
        }
        Ok(columns)
    }
}

/// Events as columns.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) event: Vec<i64>,
    pub(crate) kind: Vec<String>,
    pub(crate) data: Vec<String>,
}

/// The member of an event's text that names its kind.
#[derive(Deserialize)]
struct Kind<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
}

impl Events {
    pub(crate) fn new(operation: &str, events: &[Event]) -> Result<Self, ProviderError> {
        let mut columns = Self::default();
        for event in events {
            if event.event_id == 0 {
                return Err(ProviderError::permanent(operation, "event_id must be set by the runtime"));
            }
            let data = serde_json::to_string(event)
                .map_err(|e| ProviderError::permanent(operation, format!("event cannot be written: {e}")))?;
            let kind =
                serde_json::from_str::<Kind<'_>>(&data).map(|k| k.kind.into_owned()).unwrap_or_default();
            columns.event.push(signed(event.event_id));
            columns.kind.push(kind);
            columns.data.push(data);
        }
        Ok(columns)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.data.iter().map(String::len).sum()
    }
}

/// Reads events; what cannot be decoded is an error, never left out.
pub(crate) fn decoded(data: &[String]) -> Result<Vec<Event>, serde_json::Error> {
    data.iter().map(|text| serde_json::from_str(text)).collect()
}

fn serialised(operation: &str, item: &WorkItem) -> Result<String, ProviderError> {
    serde_json::to_string(item)
        .map_err(|e| ProviderError::permanent(operation, format!("work item cannot be written: {e}")))
}

/// A number of duroxide as PostgreSQL has it. Beyond 2^63 there is none.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// And back.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
