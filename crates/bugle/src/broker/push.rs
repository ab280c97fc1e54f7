//! Pushing messages.

use super::fuse::{Fused, Pushes, lane_of};
use super::{Broker, Message, PartitionId};
use crate::limits::PUSH_MESSAGES_MAX;
use crate::name::{Key, QueueName};
use crate::{Error, crash};
use sqlx::PgConnection;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// How often a push is tried whose queue is gone: it is made anew each time.
const TRIES: usize = 3;

/// What became of a message that was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// Its id; of a duplicate, that of the first.
    pub id: Uuid,
    /// Its partition.
    pub partition: PartitionId,
    /// Its place in the log; `None`: it is a duplicate, and nothing was written.
    pub seq: Option<i64>,
}

/// A message whose queue is known, with the id that it will have.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(super) queue: i32,
    pub(super) id: Uuid,
    pub(super) message: Arc<Message>,
}

#[derive(sqlx::FromRow)]
struct Row {
    part: Option<PartitionId>,
    seq: Option<i64>,
    id: Uuid,
    full_at: Option<i32>,
}

/// What became of one message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Written {
    /// It is there, or was before.
    Done(Pushed),
    /// Its queue may hold so many, and does.
    Full(i32),
    /// There is no such queue any more.
    Gone,
}

impl Broker {
    /// Pushes messages into any queues and partitions; queues and partitions that are not there are made. Answered when they have been
    /// committed, in their order. One that cannot be pushed (its queue holds jobs, or is full) has its own error, and the others are pushed
    /// without it.
    ///
    /// A queue that was told a most number takes the first messages that it has room for, and refuses the others ([`Error::QueueFull`]). It may
    /// become too long by what is pushed at the same moment: by two statements of each node, of 500 messages or one call's.
    ///
    /// An error for all of them says whether they may have been written ([`Error::outcome`]): then push them again with the same keys.
    pub async fn push(&self, messages: Vec<Message>) -> Result<Vec<Result<Pushed, Error>>, Error> {
        check(messages.len())?;
        let mut answers: Vec<Option<Result<Pushed, Error>>> = messages.iter().map(|_| None).collect();
        let mut left: Vec<(usize, Arc<Message>)> = messages.into_iter().map(Arc::new).enumerate().collect();
        for _ in 0..TRIES {
            let numbers = self.declare_all(left.iter().map(|(_, message)| &message.queue)).await;
            let (mut places, mut calls) = (Vec::new(), Vec::new());
            for (place, message) in left {
                match &numbers[&message.queue] {
                    Ok(queue) => {
                        places.push(place);
                        calls.push(Numbered { queue: *queue, id: Uuid::now_v7(), message });
                    }
                    Err(error) => answers[place] = Some(Err(error.again())),
                }
            }
            left = Vec::new();
            if calls.is_empty() {
                break;
            }
            let first = calls.first().map(|first| (first.queue, first.message.partition.as_str()));
            let (batch, lane) = (Fused(Pushes(self.bugle.clone())), lane_of(first));
            let rows = self.shared().pushes.call(&batch, lane, calls.clone()).await;
            let rows = rows.unwrap_or_else(|| Err(Error::timed_out()))?;
            for ((place, call), written) in places.into_iter().zip(calls).zip(rows) {
                answers[place] = match written {
                    Written::Done(pushed) => Some(Ok(pushed)),
                    Written::Full(messages_max) => {
                        let queue = call.message.queue.to_string();
                        Some(Err(Error::QueueFull { queue, messages_max }))
                    }
                    Written::Gone => {
                        self.forget(&call.message.queue);
                        left.push((place, call.message));
                        None
                    }
                };
            }
        }
        let gone =
            || Err(Error::Bug("a queue was deleted again and again while it was pushed to".to_owned()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(gone)).collect())
    }

    /// The numbers of queues, each made if it is not there.
    async fn declare_all<'q>(
        &self,
        names: impl Iterator<Item = &'q QueueName>,
    ) -> HashMap<QueueName, Result<i32, Error>> {
        let mut numbers = HashMap::new();
        for name in names {
            if !numbers.contains_key(name) {
                numbers.insert(name.clone(), self.declare(name).await);
            }
        }
        numbers
    }
}

fn check(messages: usize) -> Result<(), Error> {
    if messages <= PUSH_MESSAGES_MAX {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "number of messages",
        fault: format!("is {messages}, over the limit of {PUSH_MESSAGES_MAX}"),
        next: "push them in several calls",
    })
}

/// The messages as the columns that SQL takes: queues, partitions, ids, keys, traces, subjects, payloads.
#[derive(Default)]
pub(super) struct Columns<'m> {
    pub(super) queues: Vec<i32>,
    pub(super) partitions: Vec<&'m str>,
    pub(super) ids: Vec<Uuid>,
    pub(super) keys: Vec<Option<&'m str>>,
    pub(super) traces: Vec<Option<Uuid>>,
    pub(super) subs: Vec<Option<&'m str>>,
    pub(super) payloads: Vec<&'m str>,
}

impl<'m> Columns<'m> {
    pub(super) fn new(messages: impl IntoIterator<Item = &'m Numbered>) -> Self {
        let mut columns = Self::default();
        for Numbered { queue, id, message } in messages {
            columns.queues.push(*queue);
            columns.partitions.push(message.partition.as_str());
            columns.ids.push(*id);
            columns.keys.push(message.key.as_ref().map(Key::as_str));
            columns.traces.push(message.trace);
            columns.subs.push(message.sub.as_deref());
            columns.payloads.push(message.payload.get());
        }
        columns
    }
}

/// Writes messages with one statement.
pub(super) async fn write(
    connection: &mut PgConnection,
    statement: sqlx::SqlStr,
    messages: &[&Numbered],
) -> Result<Vec<Written>, Error> {
    crash::point("push.before_send");
    let columns = Columns::new(messages.iter().copied());
    let rows: Vec<Row> = sqlx::query_as(statement)
        .bind(columns.queues)
        .bind(columns.partitions)
        .bind(columns.ids)
        .bind(columns.keys)
        .bind(columns.traces)
        .bind(columns.subs)
        .bind(columns.payloads)
        .fetch_all(connection)
        .await
        .map_err(Error::executing)?;
    crash::point("push.after_commit");
    if rows.len() != messages.len() {
        return Err(Error::Bug(format!("{} messages were pushed, {} answered", messages.len(), rows.len())));
    }
    let written = |row: Row| match (row.part, row.full_at) {
        (None, _) => Written::Gone,
        (Some(_), Some(most)) => Written::Full(most),
        (Some(partition), None) => Written::Done(Pushed { id: row.id, partition, seq: row.seq }),
    };
    Ok(rows.into_iter().map(written).collect())
}

/// The queues that something was written into.
pub(super) fn queues(messages: &[&Numbered]) -> BTreeSet<i32> {
    messages.iter().map(|message| message.queue).collect()
}
