//! Claiming turns: an instance with all its messages that are due, and its history.

use crate::cache::Stand;
use crate::items::{decoded, unsigned};
use crate::store::{Store, Tail, interval};
use crate::{text, token};
use duroxide::providers::{DispatcherCapabilityFilter, KvEntry, OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What one who asks for a turn wants. Those who want the same are served by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) lease: Duration,
    /// From which packed version to which; `None`: any.
    pub(crate) versions: Option<(i64, i64)>,
}

/// Packs a version so that greater versions are greater numbers.
pub(crate) fn packed(version: &semver::Version) -> i64 {
    let part = |number: u64, bits: u32| number.min((1 << bits) - 1);
    let packed = part(version.major, 20) << 42 | part(version.minor, 21) << 21 | part(version.patch, 21);
    i64::try_from(packed).unwrap_or(i64::MAX)
}

impl Want {
    /// `None`: a dispatcher that supports nothing.
    pub(crate) fn new(lease: Duration, filter: Option<&DispatcherCapabilityFilter>) -> Option<Self> {
        let Some(filter) = filter else { return Some(Self { lease, versions: None }) };
        // The first range alone counts, as duroxide's own suite demands.
        let range = filter.supported_duroxide_versions.first()?;
        Some(Self { lease, versions: Some((packed(&range.min), packed(&range.max))) })
    }
}

/// A claimed turn.
pub(crate) struct Turn {
    pub(crate) item: OrchestrationItem,
    pub(crate) token: String,
    pub(crate) attempt: u32,
}

#[derive(sqlx::FromRow)]
struct Row {
    instance: Option<String>,
    token: Option<String>,
    attempt: Option<i32>,
    name: Option<String>,
    version: Option<String>,
    execution: Option<i64>,
    incarnation: Option<i64>,
    last_event: Option<i64>,
    messages: Option<Vec<String>>,
    /// `None`: this node wrote it.
    history: Option<Vec<String>>,
    kv_keys: Option<Vec<String>>,
    kv_values: Option<Vec<String>>,
    kv_updated_ms: Option<Vec<i64>>,
    again_us: Option<i64>,
    passed_over: Option<bool>,
    is_dry: Option<bool>,
    late_us: Option<i64>,
}

impl Store {
    /// One look: up to `most` turns.
    pub(crate) async fn claim_turns(&self, most: i32, want: Want) -> Result<(Vec<Turn>, Tail), sqlx::Error> {
        let (from, to) = want.versions.unwrap_or_default();
        let rows: Vec<Row> = sqlx::query_as(self.sql.claim_turns())
            .bind(most)
            .bind(interval(want.lease))
            .bind(want.versions.is_some())
            .bind(from)
            .bind(to)
            .bind(&self.node)
            .fetch_all(&self.pool)
            .await?;
        let (mut turns, mut tail) = (Vec::new(), Tail::default());
        for mut row in rows {
            match row.instance.take() {
                Some(instance) => turns.push(self.turn(instance, row).await?),
                None => tail = Tail::new(row.again_us, row.passed_over, row.is_dry),
            }
        }
        Ok((turns, tail))
    }

    async fn turn(&self, instance: String, mut row: Row) -> Result<Turn, sqlx::Error> {
        self.counters.turns.claimed(row.late_us);
        let kv_snapshot = row.take_kv();
        let token = token::write(&instance, row.token.as_deref().unwrap_or_default());
        let attempt = row.attempt.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let texts = row.messages.take().unwrap_or_default();
        let messages: Result<Vec<WorkItem>, _> =
            texts.iter().map(|text| serde_json::from_str(text)).collect();
        // A message of a newer version must not be lost: the turn is given back until somebody can read it, or it is poison.
        let (messages, unread) = match messages {
            Ok(messages) => (messages, None),
            Err(error) => (Vec::new(), Some(format!("a message cannot be decoded: {error}"))),
        };
        let (history, history_error) = match self.history_of(&instance, &mut row).await? {
            Ok(history) => (history, unread),
            Err(error) => (Vec::new(), Some(error)),
        };
        let execution_id = unsigned(row.execution.unwrap_or(1));
        let (orchestration_name, version) = named(row.name, row.version, &history, &messages);
        let kv_snapshot = if history_error.is_some() { HashMap::new() } else { kv_snapshot };
        let history = if history_error.is_some() { Vec::new() } else { history };
        let item = OrchestrationItem {
            instance,
            orchestration_name,
            execution_id,
            version,
            history,
            messages,
            history_error,
            kv_snapshot,
        };
        Ok(Turn { item, token, attempt })
    }

    /// The history of a claimed instance: sent with it, in memory, or (forgotten meanwhile) read now. The inner error: it cannot be decoded.
    async fn history_of(
        &self,
        instance: &str,
        row: &mut Row,
    ) -> Result<Result<Vec<Event>, String>, sqlx::Error> {
        let (Some(incarnation), Some(execution), Some(last_event)) =
            (row.incarnation, row.execution, row.last_event)
        else {
            return Ok(Ok(Vec::new())); // it has not begun
        };
        let stand = Stand { incarnation, execution, last_event };
        let Some(data) = row.history.take() else {
            return match self.cache.get(instance) {
                Some((known, events)) if known == stand => {
                    self.counters.history_hits.one();
                    Ok(Ok(Arc::unwrap_or_clone(events)))
                }
                _ => self.read_current(instance).await,
            };
        };
        Ok(self.keep(instance, stand, &data).map(|events| events.to_vec()))
    }

    /// Decodes a history that was sent as a whole, and keeps it in memory.
    pub(crate) fn keep(
        &self,
        instance: &str,
        stand: Stand,
        data: &[String],
    ) -> Result<Arc<Vec<Event>>, String> {
        self.counters.history_misses.one();
        let events = decoded(data).map_err(|error| format!("Failed to deserialize history: {error}"))?;
        let events = Arc::new(events);
        self.cache.put(instance, stand, events.clone(), data.iter().map(String::len).sum());
        Ok(events)
    }
}

impl Row {
    fn take_kv(&mut self) -> HashMap<String, KvEntry> {
        let keys = self.kv_keys.take().unwrap_or_default().into_iter().map(text::read);
        let values = self.kv_values.take().unwrap_or_default().into_iter().map(text::read);
        let times = self.kv_updated_ms.take().unwrap_or_default();
        keys.zip(values.zip(times))
            .map(|(key, (value, ms))| (key, KvEntry { value, last_updated_at_ms: unsigned(ms) }))
            .collect()
    }
}

/// The name and version of an instance: from its row, its first event or, before its first turn, the message that starts it.
fn named(
    name: Option<String>,
    version: Option<String>,
    history: &[Event],
    messages: &[WorkItem],
) -> (String, String) {
    if let Some(name) = name {
        return (name, version.unwrap_or_else(|| "unknown".to_owned()));
    }
    let begun = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), version.clone())),
        _ => None,
    });
    let starting = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration { orchestration, version, .. }
        | WorkItem::ContinueAsNew { orchestration, version, .. } => {
            Some((orchestration.clone(), version.clone().unwrap_or_else(|| "unknown".to_owned())))
        }
        _ => None,
    });
    begun.or(starting).unwrap_or_else(|| ("Unknown".to_owned(), "unknown".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greater_versions_are_greater_numbers() {
        let versions =
            ["0.0.0", "0.0.1", "0.1.0", "0.1.1000", "0.1.30000", "1.0.0", "1.999.5000", "2.0.0", "999.0.1"];
        let numbers: Vec<i64> = versions.iter().map(|v| packed(&v.parse().unwrap())).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(packed(&semver::Version::new(u64::MAX, u64::MAX, u64::MAX)) > 0);
    }
}
