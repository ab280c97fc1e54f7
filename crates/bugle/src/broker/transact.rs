//! Pushes and verdicts together: all or nothing.

use super::push::{self, Numbered, Pushed};
use super::settle::{self, Said, Settle, Settled};
use super::{Broker, Message, PartitionId};
use crate::Error;
use crate::name::Key;
use sqlx::postgres::PgDatabaseError;
use sqlx::{FromRow as _, Row as _};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// How often a transaction is tried that others stood in the way of.
const TRIES: usize = 10;

/// What shall happen together.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// Messages to push.
    pub push: Vec<Message>,
    /// Verdicts to give.
    pub settle: Vec<Settle>,
    /// Leases that must still be held, beside those that the verdicts name.
    pub required: Vec<Uuid>,
}

/// What has happened together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transacted {
    /// All of it.
    Done {
        /// The messages, in their order.
        pushed: Vec<Pushed>,
        /// The answers to the verdicts, in their order.
        settled: Vec<Settled>,
    },
    /// None of it, because one thing could not be done.
    Refused {
        /// Which.
        operation: Operation,
        /// What is wrong with it.
        fault: Fault,
        /// Both in words, with the value and the next step.
        why: String,
    },
}

/// One thing of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The message at this place of [`Transaction::push`].
    Push(usize),
    /// The verdict at this place of [`Transaction::settle`].
    Settle(usize),
    /// This lease of [`Transaction::required`].
    Require(Uuid),
}

/// What is wrong with one thing of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A message with this key is there already.
    Duplicate,
    /// The queue is full.
    Full,
    /// The queue was deleted meanwhile.
    Gone,
    /// The lease is somebody else's by now, or nobody's.
    Lost,
    /// There is no such message in the claim.
    Missing,
    /// The group has done the message before.
    Passed,
}

impl Fault {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "duplicate" => Self::Duplicate,
            "full" => Self::Full,
            "gone" => Self::Gone,
            "lost" => Self::Lost,
            "missing" => Self::Missing,
            "passed" => Self::Passed,
            _ => return None,
        })
    }
}

impl Transaction {
    /// What the database says of a transaction that it refused: the kind of an operation, its place or its lease, and the fault.
    fn refused(&self, detail: &str) -> Option<Transacted> {
        let mut words = detail.split(' ');
        let (kind, which, fault) = (words.next()?, words.next()?, Fault::parse(words.next()?)?);
        let place = || which.parse::<usize>().ok()?.checked_sub(1);
        let operation = match kind {
            "push" => Operation::Push(place()?),
            "settle" => Operation::Settle(place()?),
            "lease" => Operation::Require(which.parse().ok()?),
            _ => return None,
        };
        Some(Transacted::Refused { operation, fault, why: self.why(operation, fault)? })
    }

    fn why(&self, operation: Operation, fault: Fault) -> Option<String> {
        Some(match operation {
            Operation::Push(place) => {
                let message = self.push.get(place)?;
                let what = match fault {
                    Fault::Full => "its queue is full; push it when consumers have done some".to_owned(),
                    Fault::Gone => "its queue was deleted meanwhile; run the transaction again".to_owned(),
                    _ => format!(
                        "a message with key {:?} is there already; leave it out, or give it another key",
                        message.key.as_ref().map(Key::as_str).unwrap_or_default()
                    ),
                };
                let (queue, partition) = (message.queue.as_str(), message.partition.as_str());
                format!("push[{place}] into queue {queue:?}, partition {partition:?}: {what}")
            }
            Operation::Settle(place) => {
                let settle = self.settle.get(place)?;
                let what = match fault {
                    Fault::Missing => {
                        "there is no such message in the claim; name one of those that were popped"
                    }
                    Fault::Passed => "the group has done it before; leave it out",
                    _ => "the lease is lost; pop again",
                };
                format!("settle[{place}] of {}: {what}", settle.names())
            }
            Operation::Require(lease) => {
                format!("required lease {lease}: it is not held any more; pop again")
            }
        })
    }
}

impl Broker {
    /// Pushes, then settles, in one transaction of the database's that waits for nobody outside of it.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Transacted, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.transact_once(transaction).await {
                Err(error) if error.is_passing() && tries < TRIES => {}
                Ok(Transacted::Refused { operation, fault, why }) => {
                    for message in &transaction.push {
                        self.forget(&message.queue); // perhaps it is that which is gone
                    }
                    return Ok(Transacted::Refused { operation, fault, why });
                }
                answer => return answer,
            }
        }
    }

    async fn transact_once(&self, transaction: &Transaction) -> Result<Transacted, Error> {
        let mut messages = Vec::new();
        for message in &transaction.push {
            let queue = self.declare(&message.queue).await?;
            messages.push(Numbered { queue, id: Uuid::now_v7(), message: Arc::new(message.clone()) });
        }
        let (push, settle) = (push::Columns::new(&messages), settle::Columns::new(&transaction.settle));
        let rows = sqlx::query(self.statements().transact())
            .bind(self.bugle.namespace_number())
            .bind(&transaction.required)
            .bind(push.queues)
            .bind(push.partitions)
            .bind(push.ids)
            .bind(push.keys)
            .bind(push.traces)
            .bind(push.subs)
            .bind(push.payloads)
            .bind(settle.partitions)
            .bind(settle.groups)
            .bind(settle.tokens)
            .bind(settle.seqs)
            .bind(settle.keys)
            .bind(settle.verdicts)
            .bind(settle.errors)
            .fetch_all(self.bugle.pool())
            .await;
        let rows = match rows {
            Err(error) => {
                let refused = detail(&error).and_then(|detail| transaction.refused(detail));
                return refused.map_or_else(|| Err(Error::executing(error)), Ok);
            }
            Ok(rows) => rows,
        };
        let (mut pushed, mut settled) = (Vec::new(), Vec::new());
        let mut queues: BTreeSet<i32> = messages.iter().map(|message| message.queue).collect();
        for row in &rows {
            if let Some(partition) = row.try_get::<Option<PartitionId>, _>("part").map_err(Error::Answer)? {
                let id = row.try_get("id").map_err(Error::Answer)?;
                pushed.push(Pushed { id, partition, seq: row.try_get("seq").map_err(Error::Answer)? });
            } else {
                match settle::Row::from_row(row).map_err(Error::Answer)?.said()? {
                    Said::Settled(answer) => settled.push(answer),
                    Said::Wake(queue) => drop(queues.insert(queue)),
                    Said::Again => {} // the function refuses instead
                }
            }
        }
        for queue in queues {
            self.bugle.wake_local(queue);
        }
        Ok(Transacted::Done { pushed, settled })
    }
}

/// Which operation was refused, and why, as the function says it.
fn detail(error: &sqlx::Error) -> Option<&str> {
    let answer = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    if answer.code() == "BGL05" { answer.detail() } else { None }
}
