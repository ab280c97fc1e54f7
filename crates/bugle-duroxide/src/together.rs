//! Calls of several dispatchers or clients at once, made with one statement: work that is done, messages, reads of history.
//!
//! A runtime's workers begin and end together more often than not, because one look claims for all of them: their reads and acks then
//! cost one statement and one flush instead of one each.

use crate::cache::Stand;
use crate::history::News;
use crate::items::Message;
use crate::store::{ACK_PATIENCE, Store, Try, insist, run, run_leased};
use bugle::fuse::Batch;
use duroxide::providers::ProviderError;
use sqlx::postgres::types::PgInterval;
use std::sync::Arc;

/// The answer of a call whose maker is gone with its runtime.
pub(crate) fn gone(operation: &str) -> ProviderError {
    ProviderError::retryable(operation, "the runtime that made this call has ended")
}

/// Work that is done.
pub(crate) struct Ack {
    pub(crate) id: i64,
    pub(crate) fence: String,
    /// What its instance is told.
    pub(crate) completion: Option<Message>,
}

#[derive(Clone)]
pub(crate) struct Acks(pub(crate) Arc<Store>);

impl Batch for Acks {
    type Key = ();
    type Call = Ack;
    type Answer = Result<(), ProviderError>;
    type Kept = ();

    const MOST: usize = 100;

    async fn make(&self, (): &(), (): &mut (), acks: Vec<Ack>) -> Vec<Self::Answer> {
        write(&acks, |acks| self.0.write_acks(acks)).await
    }
}

/// A message, and after how long it is due.
pub(crate) struct Letter {
    pub(crate) message: Message,
    pub(crate) delay: PgInterval,
}

#[derive(Clone)]
pub(crate) struct Letters(pub(crate) Arc<Store>);

impl Batch for Letters {
    type Key = ();
    type Call = Letter;
    type Answer = Result<(), ProviderError>;
    type Kept = ();

    const MOST: usize = 100;

    async fn make(&self, (): &(), (): &mut (), letters: Vec<Letter>) -> Vec<Self::Answer> {
        write(&letters, |letters| self.0.write_letters(letters)).await
    }
}

/// Writes all with one statement or, when PostgreSQL has refused that because of one of them, each alone.
async fn write<'c, C, F>(calls: &'c [C], statement: impl Fn(&'c [C]) -> F) -> Vec<Result<(), ProviderError>>
where
    F: Future<Output = Result<(), ProviderError>>,
{
    let all = statement(calls).await;
    if calls.len() == 1 || !matches!(&all, Err(error) if !error.is_retryable()) {
        return calls.iter().map(|_| all.clone()).collect();
    }
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        answers.push(statement(std::slice::from_ref(call)).await);
    }
    answers
}

/// A read of an instance's history: what is in memory need not be sent.
pub(crate) struct Read {
    pub(crate) instance: String,
    pub(crate) known: Option<Stand>,
}

#[derive(Clone)]
pub(crate) struct Reads(pub(crate) Arc<Store>);

impl Batch for Reads {
    type Key = ();
    type Call = Read;
    type Answer = Result<Option<News>, ProviderError>;
    type Kept = ();

    /// Histories may be long.
    const MOST: usize = 16;

    async fn make(&self, (): &(), (): &mut (), reads: Vec<Read>) -> Vec<Self::Answer> {
        match run("read", || Box::pin(self.0.news(&reads))).await {
            Ok(news) => news.into_iter().map(Ok).collect(),
            Err(error) => reads.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

impl Store {
    async fn write_acks(&self, acks: &[Ack]) -> Result<(), ProviderError> {
        let completions = || acks.iter().map(|ack| ack.completion.as_ref());
        let statement = || -> Try<'_, ()> {
            let query = sqlx::query(self.sql.ack_work())
                .bind(acks.iter().map(|ack| ack.id).collect::<Vec<_>>())
                .bind(acks.iter().map(|ack| ack.fence.as_str()).collect::<Vec<_>>())
                .bind(completions().map(|c| c.map(|message| message.instance.as_str())).collect::<Vec<_>>())
                .bind(completions().map(|c| c.map(|message| message.item.as_str())).collect::<Vec<_>>());
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        };
        match acks {
            [_] => {
                run_leased(&self.counters.work.leases_lost, "ack_work_item", ACK_PATIENCE, statement).await
            }
            _ => insist("ack_work_item", ACK_PATIENCE, statement).await, // each will be told its own
        }
    }

    async fn write_letters(&self, letters: &[Letter]) -> Result<(), ProviderError> {
        run("enqueue_for_orchestrator", || {
            let query = sqlx::query(self.sql.enqueue_messages())
                .bind(letters.iter().map(|letter| letter.message.instance.as_str()).collect::<Vec<_>>())
                .bind(letters.iter().map(|letter| letter.message.kind).collect::<Vec<_>>())
                .bind(letters.iter().map(|letter| letter.message.item.as_str()).collect::<Vec<_>>())
                .bind(letters.iter().map(|letter| letter.delay).collect::<Vec<_>>());
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }
}
