//! The wake engine as Bugle uses it: one node per handle, one pump per kind of work.

use crate::broker::{self, MessageSource};
use crate::bugle::Options;
use crate::jobs::sweep::Sweeper;
use crate::jobs::{EndSource, JobSource, Statements};
use crate::name::QueueName;
use bugle_wake::{Node, Number, Place, Pump};
use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) struct Wake {
    pub(crate) node: Node,
    pub(crate) jobs: Pump<JobSource>,
    /// Started when somebody first waits for the end of a job: few processes do, and a pump that nobody needs shares in every fault.
    ends: OnceLock<Pump<EndSource>>,
    /// Started when somebody first waits for a message.
    messages: OnceLock<Pump<MessageSource>>,
    /// The queues that were used through this handle: an enqueue knows a name, a ring a number.
    numbers: Mutex<HashMap<QueueName, Number>>,
}

impl Wake {
    pub(crate) fn start(
        pool: &PgPool,
        options: &Options,
        statements: &Arc<Statements>,
        broker: &broker::Shared,
    ) -> Self {
        let place = Place {
            pool: pool.clone(),
            listener: options.listener.clone().unwrap_or_else(|| (*pool.connect_options()).clone()),
            statements: bugle_wake::Statements::new(|sql| options.schema.place_in(sql)),
            node: node_name(),
        };
        let node = Node::start(options.wake.clone(), place);
        let source = JobSource::new(pool.clone(), statements.clone());
        let finds = [source.finds.clone(), broker.finds.clone()];
        let sweeper = Sweeper::new(pool.clone(), statements.clone(), broker.statements.clone(), finds);
        let jobs = node.pump(source);
        sweeper.beat();
        node.on_heartbeat(move || sweeper.beat());
        Self { node, jobs, ends: OnceLock::new(), messages: OnceLock::new(), numbers: Mutex::default() }
    }

    /// The pump for the ends of jobs.
    pub(crate) fn ends(&self, pool: &PgPool, statements: &Arc<Statements>) -> &Pump<EndSource> {
        self.ends.get_or_init(|| self.node.pump(EndSource::new(pool.clone(), statements.clone())))
    }

    /// The pump for messages.
    pub(crate) fn messages(&self, source: &MessageSource) -> &Pump<MessageSource> {
        self.messages.get_or_init(|| self.node.pump(source.clone()))
    }

    pub(crate) fn remember(&self, name: &QueueName, number: i32) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), Number(number));
    }

    /// The number of a queue that was used before.
    pub(crate) fn number(&self, name: &QueueName) -> Option<Number> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    pub(crate) fn local(&self, name: &QueueName) {
        if let Some(number) = self.number(name) {
            self.node.local(number);
        }
    }
}

/// A name for this node: host, process and something random. Unique even when a container always has the same host name and process number.
#[must_use]
pub fn node_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>())
}
