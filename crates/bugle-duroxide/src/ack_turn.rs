//! The end of a turn: everything that it did in one statement, or given back, or held for longer.

use crate::cache::Stand;
use crate::items::{Activities, Events, Message, Messages, signed};
use crate::store::{ACK_PATIENCE, Store, interval, run_leased};
use crate::text;
use crate::together::{Letter, Letters, gone};
use crate::token::Token;
use crate::turns::packed;
use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use std::sync::Arc;
use std::time::Duration;

/// What a turn did, as columns.
pub(crate) struct Done {
    events: Events,
    sets_custom_status: bool,
    custom_status: Option<String>,
    kv: KvChanges,
    work: Activities,
    messages: Messages,
    metadata: ExecutionMetadata,
    cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Done {
    pub(crate) fn new(
        operation: &str,
        history_delta: &[Event],
        worker_items: &[WorkItem],
        orchestrator_items: &[WorkItem],
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Result<Self, ProviderError> {
        let last_status = history_delta.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.as_deref()),
            _ => None,
        });
        Ok(Self {
            events: Events::new(operation, history_delta)?,
            sets_custom_status: last_status.is_some(),
            custom_status: last_status.flatten().map(|status| text::write(status).into_owned()),
            kv: KvChanges::new(history_delta),
            work: Activities::new(operation, worker_items)?,
            messages: Messages::new(operation, orchestrator_items)?,
            metadata,
            cancelled,
        })
    }
}

/// What a turn did to keys: everything removed first, perhaps, then each key once.
#[derive(Default)]
struct KvChanges {
    cleared: bool,
    keys: Vec<String>,
    values: Vec<Option<String>>,
    updated_ms: Vec<Option<i64>>,
}

impl KvChanges {
    fn new(events: &[Event]) -> Self {
        let mut changes = Self::default();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                    changes.set(
                        key,
                        Some(text::write(value).into_owned()),
                        Some(signed(*last_updated_at_ms)),
                    );
                }
                EventKind::KeyValueCleared { key } => changes.set(key, None, None),
                EventKind::KeyValuesCleared => changes = Self { cleared: true, ..Self::default() },
                _ => {}
            }
        }
        changes
    }

    fn set(&mut self, key: &str, value: Option<String>, updated_ms: Option<i64>) {
        let key = text::write(key);
        if let Some(place) = self.keys.iter().position(|known| *known == key) {
            self.values[place] = value;
            self.updated_ms[place] = updated_ms;
            return;
        }
        self.keys.push(key.into_owned());
        self.values.push(value);
        self.updated_ms.push(updated_ms);
    }
}

impl Store {
    /// Acks a turn; what it added to the history is kept in memory.
    pub(crate) async fn ack_turn(
        &self,
        operation: &str,
        lock_token: &str,
        execution_id: u64,
        history_delta: &[Event],
        done: &Done,
    ) -> Result<(), ProviderError> {
        let token = Token::turn(operation, lock_token)?;
        let execution = signed(execution_id);
        let lost = &self.counters.turns.leases_lost;
        let (incarnation, before) =
            run_leased(lost, operation, ACK_PATIENCE, || Box::pin(self.write_turn(token, execution, done)))
                .await?;
        // Below 0: the database says that nothing may be added to what is known.
        if let Some(last_event) = done.events.event.iter().copied().max()
            && before >= 0
        {
            let stand = Stand { incarnation, execution, last_event };
            self.cache.append(token.name, before, stand, history_delta, done.events.bytes());
        }
        Ok(())
    }

    async fn write_turn(
        &self,
        token: Token<'_, &str>,
        execution: i64,
        done: &Done,
    ) -> Result<(i64, i64), sqlx::Error> {
        let Done { events, kv, work, messages, metadata, cancelled, .. } = done;
        sqlx::query_as(self.sql.ack_turn())
            .bind(token.name)
            .bind(token.fence)
            .bind(execution)
            .bind(&self.node)
            .bind(&events.event)
            .bind(&events.kind)
            .bind(&events.data)
            .bind(&metadata.orchestration_name)
            .bind(&metadata.orchestration_version)
            .bind(&metadata.parent_instance_id)
            .bind(metadata.pinned_duroxide_version.as_ref().map(packed))
            .bind(&metadata.status)
            .bind(metadata.output.as_deref().map(text::write))
            .bind(done.sets_custom_status)
            .bind(&done.custom_status)
            .bind(kv.cleared)
            .bind(&kv.keys)
            .bind(&kv.values)
            .bind(&kv.updated_ms)
            .bind(&work.instance)
            .bind(&work.execution)
            .bind(&work.activity)
            .bind(&work.session)
            .bind(&work.tag)
            .bind(&work.item)
            .bind(&messages.instance)
            .bind(&messages.kind)
            .bind(&messages.item)
            .bind(&messages.delay)
            .bind(cancelled.iter().map(|c| c.instance.as_str()).collect::<Vec<_>>())
            .bind(cancelled.iter().map(|c| signed(c.execution_id)).collect::<Vec<_>>())
            .bind(cancelled.iter().map(|c| signed(c.activity_id)).collect::<Vec<_>>())
            .fetch_one(&self.pool)
            .await
    }

    /// Gives a turn back. `uncounted`: the attempt does not count.
    pub(crate) async fn release_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "abandon_orchestration_item";
        let token = Token::turn(OPERATION, lock_token)?;
        run_leased(&self.counters.turns.leases_lost, OPERATION, Duration::ZERO, || {
            let query = sqlx::query(self.sql.release_turn()).bind(token.name).bind(token.fence);
            let query = query.bind(delay.map(interval)).bind(uncounted);
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    /// Holds a turn for longer, from now on.
    pub(crate) async fn renew_turn(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let token = Token::turn(OPERATION, lock_token)?;
        run_leased(&self.counters.turns.leases_lost, OPERATION, extend_for, || {
            let query = sqlx::query(self.sql.renew_turn()).bind(token.name).bind(token.fence);
            let query = query.bind(interval(extend_for));
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    /// Writes a message for an instance, due after `delay`.
    pub(crate) async fn enqueue_message(
        self: &Arc<Self>,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let message = Message::new(OPERATION, item)?;
        let letter = Letter { message, delay: interval(delay.unwrap_or_default()) };
        self.letters.call(&Letters(self.clone()), (), letter).await.ok_or_else(|| gone(OPERATION))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> EventKind {
        EventKind::KeyValueSet { key: key.to_owned(), value: value.to_owned(), last_updated_at_ms: 7 }
    }

    #[test]
    fn of_several_changes_to_a_key_the_last_one_counts() {
        let kinds = [
            set("before", "1"),
            EventKind::KeyValuesCleared,
            set("a", "1"),
            set("b", "2"),
            EventKind::KeyValueCleared { key: "a".to_owned() },
            set("b", "3"),
        ];
        let events: Vec<Event> = kinds
            .into_iter()
            .zip(1..)
            .map(|(kind, id)| Event::with_event_id(id, "i", 1, None, kind))
            .collect();
        let changes = KvChanges::new(&events);
        assert!(changes.cleared);
        assert_eq!(changes.keys, ["a", "b"]);
        assert_eq!(changes.values, [None, Some("3".to_owned())]);
        assert_eq!(changes.updated_ms, [None, Some(7)]);
    }
}
