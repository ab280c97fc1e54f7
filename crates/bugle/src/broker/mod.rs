//! The broker: messages between services. A queue holds partitions (ordered lanes, made on first use), a partition an insert-only log; every
//! consumer group reads every message, with a cursor and at most one lease per partition.
//!
//! The path of one message: [`Broker::push`] writes it, [`Broker::pop_within`] leases its partition to a group, [`Broker::settle`] moves the
//! group's cursor past it. However many wait, one look serves them all ([`Pop`]).
//!
//! ```
//! use bugle::Bugle;
//! use bugle::broker::{Message, Pop, Settle, Verdict};
//! use bugle::pg::embedded::{Options, Server};
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::start(Options::ephemeral()).await?; // or your own: Bugle::connect("postgres://...")
//!     let bugle = Bugle::connect(&server.url()).await?;
//!     let broker = bugle.broker();
//!
//!     let order = serde_json::value::to_raw_value(&serde_json::json!({"order": 7}))?;
//!     broker.push(vec![Message::new("orders", order)?.partition("customer-1")?]).await?;
//!
//!     let pop = Pop::new("orders")?.group("mailer")?.most(10)?;
//!     let popped = broker.pop_within(&pop, Duration::from_secs(30)).await?.ok_or("nothing came")?;
//!     let done: Vec<Settle> = popped.receipts().map(|receipt| receipt.settle(Verdict::Ack)).collect();
//!     broker.settle(&done).await?;
//!
//!     bugle.close().await;
//!     server.stop().await?;
//!     Ok(())
//! }
//! ```

mod counts;
mod fuse;
mod group;
mod look;
mod looks;
pub(crate) mod maintain;
mod message;
pub mod operate;
mod pop;
mod push;
mod queue;
mod settle;
mod sight;
mod source;
mod statements;
mod tagged;
mod transact;

pub use counts::{Counts, Shares};
pub use group::Start;
pub use maintain::Maintained;
pub use message::{Delivered, Message, PartitionId, Popped, Receipt};
pub use pop::{Pop, QUEUE_MODE};
pub use push::Pushed;
pub use settle::{Extended, Settle, Settled, Settlement, Verdict};
pub use transact::{Fault, Operation, Transacted, Transaction};

pub(crate) use source::MessageSource;
pub(crate) use statements::Statements;

use crate::Bugle;
use crate::fuse::Fuse;
use crate::name::{GroupName, PartitionName, QueueName};
use fuse::{Fused, Pushes, Settles};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

/// The broker of a [`Bugle`], in its namespace. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    bugle: Bugle,
}

/// What all brokers of a namespace share.
pub(crate) struct Shared {
    statements: Arc<Statements>,
    /// Queues and groups that were used here: whoever finds that one is gone forgets it.
    queues: Mutex<HashMap<QueueName, i32>>,
    groups: Mutex<HashMap<(i32, GroupName), i32>>,
    /// Partitions go only with their queue, whose number nobody else gets.
    partitions: Mutex<HashMap<(i32, PartitionName), i32>>,
    pushes: Fuse<Fused<Pushes>>,
    settles: Fuse<Fused<Settles>>,
    source: OnceLock<MessageSource>,
    counts: Arc<Counts>,
    /// Looks of this node that found something.
    finds: Arc<AtomicU64>,
}

impl Shared {
    pub(crate) fn new(statements: Arc<Statements>, finds: Arc<AtomicU64>) -> Self {
        Self {
            statements,
            queues: Mutex::default(),
            groups: Mutex::default(),
            partitions: Mutex::default(),
            pushes: Fuse::default(),
            settles: Fuse::default(),
            source: OnceLock::new(),
            counts: Arc::default(),
            finds,
        }
    }

    /// Nobody looks any more.
    pub(crate) async fn close(&self) {
        if let Some(source) = self.source.get() {
            source.close().await;
        }
    }
}

impl Bugle {
    /// The broker of this handle's namespace.
    #[must_use]
    pub fn broker(&self) -> Broker {
        Broker { bugle: self.clone() }
    }
}

impl Broker {
    fn shared(&self) -> &Shared {
        self.bugle.broker_shared()
    }

    /// What this process has counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared().counts
    }

    fn statements(&self) -> &Statements {
        &self.shared().statements
    }

    /// Where looks come from, for those who wait and those who do not.
    fn source(&self) -> &MessageSource {
        let shared = self.shared();
        shared.source.get_or_init(|| {
            let (pool, namespace) = (self.bugle.pool().clone(), self.bugle.namespace_number());
            MessageSource::new(
                pool,
                shared.statements.clone(),
                namespace,
                shared.finds.clone(),
                shared.counts.clone(),
            )
        })
    }
}
