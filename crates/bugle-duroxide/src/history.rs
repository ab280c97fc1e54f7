//! Reading and writing history, and what else clients read of an instance.

use crate::cache::Stand;
use crate::items::{Events, decoded, signed, unsigned};
use crate::store::{Store, run};
use crate::text;
use crate::together::{Read, Reads, gone};
use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use std::collections::HashMap;
use std::sync::Arc;

/// What the database has that memory has not.
#[derive(sqlx::FromRow)]
pub(crate) struct News {
    incarnation: i64,
    execution: i64,
    last_event: i64,
    whole: bool,
    data: Vec<String>,
}

/// News of one of those who asked, from 1.
#[derive(sqlx::FromRow)]
struct NewsRow {
    asked: i64,
    #[sqlx(flatten)]
    news: News,
}

#[derive(sqlx::FromRow)]
struct StatsRow {
    events: i64,
    event_bytes: i64,
    first_event: Option<String>,
    keys: i64,
    value_bytes: i64,
}

impl Store {
    /// The history of an instance's current execution. Only what is not in memory is sent. The inner error: it cannot be decoded.
    pub(crate) async fn read_current(
        &self,
        instance: &str,
    ) -> Result<Result<Vec<Event>, String>, sqlx::Error> {
        let known = self.cache.get(instance);
        let read = Read { instance: instance.to_owned(), known: known.as_ref().map(|(stand, _)| *stand) };
        let news = self.news(&[read]).await?.pop().flatten();
        Ok(self.learn(instance, known, news))
    }

    /// The same for the runtime and for clients, who cannot go on without it.
    pub(crate) async fn read(
        self: &Arc<Self>,
        operation: &str,
        instance: &str,
    ) -> Result<Vec<Event>, ProviderError> {
        let known = self.cache.get(instance);
        if let (Some(told), Some((stand, events))) = (self.told.take(instance), &known)
            && told == *stand
        {
            self.counters.history_hits.one();
            return Ok(events.to_vec());
        }
        let read = Read { instance: instance.to_owned(), known: known.as_ref().map(|(stand, _)| *stand) };
        let news = self.reads.call(&Reads(self.clone()), (), read).await.ok_or_else(|| gone(operation))??;
        self.learn(instance, known, news).map_err(|error| ProviderError::permanent(operation, error))
    }

    /// Joins what was known and what is new, and keeps it in memory.
    fn learn(
        &self,
        instance: &str,
        known: Option<(Stand, Arc<Vec<Event>>)>,
        news: Option<News>,
    ) -> Result<Vec<Event>, String> {
        let Some(news) = news else { return Ok(Vec::new()) };
        let stand =
            Stand { incarnation: news.incarnation, execution: news.execution, last_event: news.last_event };
        let (before, events) = match known {
            Some(known) if !news.whole => known,
            _ => {
                self.cache.forget_beyond(instance, stand);
                return self.keep(instance, stand, &news.data).map(Arc::unwrap_or_clone);
            }
        };
        self.counters.history_hits.one();
        let fresh = decoded(&news.data).map_err(|error| format!("Failed to deserialize history: {error}"))?;
        let bytes = news.data.iter().map(String::len).sum();
        self.cache.append(instance, before.last_event, stand, &fresh, bytes);
        let mut history = Arc::unwrap_or_clone(events);
        history.extend(fresh);
        Ok(history)
    }

    /// What is new of each of these; none of an instance that is not there.
    pub(crate) async fn news(&self, reads: &[Read]) -> Result<Vec<Option<News>>, sqlx::Error> {
        let known = |of: fn(Stand) -> i64| reads.iter().map(|read| read.known.map(of)).collect::<Vec<_>>();
        let rows: Vec<NewsRow> = sqlx::query_as(self.sql.read_history())
            .bind(reads.iter().map(|read| read.instance.as_str()).collect::<Vec<_>>())
            .bind(known(|stand| stand.incarnation))
            .bind(known(|stand| stand.execution))
            .bind(known(|stand| stand.last_event))
            .fetch_all(&self.pool)
            .await?;
        let mut news: Vec<Option<News>> = reads.iter().map(|_| None).collect();
        for row in rows {
            let place = usize::try_from(row.asked - 1).ok().and_then(|place| news.get_mut(place));
            if let Some(place) = place {
                *place = Some(row.news);
            }
        }
        Ok(news)
    }

    /// The history of one execution.
    pub(crate) async fn read_execution(
        &self,
        operation: &str,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let data: Vec<String> = run(operation, || {
            let query =
                sqlx::query_scalar(self.sql.read_execution()).bind(instance).bind(signed(execution_id));
            Box::pin(query.fetch_all(&self.pool))
        })
        .await?;
        decoded(&data).map_err(|error| {
            ProviderError::permanent(operation, format!("Failed to deserialize event: {error}"))
        })
    }

    /// Adds events outside of a turn.
    pub(crate) async fn append_history(
        &self,
        instance: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        let columns = Events::new(OPERATION, events)?;
        run(OPERATION, || {
            let query = sqlx::query(self.sql.append_history()).bind(instance).bind(signed(execution_id));
            let query = query.bind(&columns.event).bind(&columns.kind).bind(&columns.data);
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let row: Option<(Option<String>, i64)> = run("get_custom_status", || {
            let query =
                sqlx::query_as(self.sql.custom_status()).bind(instance).bind(signed(last_seen_version));
            Box::pin(query.fetch_optional(&self.pool))
        })
        .await?;
        Ok(row.map(|(status, version)| (status.map(text::read), unsigned(version))))
    }

    pub(crate) async fn kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let value: Option<Option<String>> = run("get_kv_value", || {
            let query = sqlx::query_scalar(self.sql.kv_value()).bind(instance).bind(text::write(key));
            Box::pin(query.fetch_optional(&self.pool))
        })
        .await?;
        Ok(value.flatten().map(text::read))
    }

    pub(crate) async fn kv_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        let rows: Vec<(String, String)> = run("get_kv_all_values", || {
            Box::pin(sqlx::query_as(self.sql.kv_values()).bind(instance).fetch_all(&self.pool))
        })
        .await?;
        Ok(rows.into_iter().map(|(key, value)| (text::read(key), text::read(value))).collect())
    }

    pub(crate) async fn stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        const OPERATION: &str = "get_instance_stats";
        let row: Option<StatsRow> = run(OPERATION, || {
            Box::pin(sqlx::query_as(self.sql.instance_stats()).bind(instance).fetch_optional(&self.pool))
        })
        .await?;
        let Some(row) = row else { return Ok(None) };
        let first: Option<Event> =
            row.first_event.as_deref().map(serde_json::from_str).transpose().map_err(|error| {
                ProviderError::permanent(OPERATION, format!("Failed to deserialize event: {error}"))
            })?;
        let carried = match first.map(|event| event.kind) {
            Some(EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. }) => events.len(),
            _ => 0,
        };
        Ok(Some(SystemStats {
            history_event_count: unsigned(row.events),
            history_size_bytes: unsigned(row.event_bytes),
            queue_pending_count: carried as u64,
            kv_user_key_count: unsigned(row.keys),
            kv_total_value_bytes: unsigned(row.value_bytes),
        }))
    }
}
