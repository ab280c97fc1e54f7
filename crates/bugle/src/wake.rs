//! The wake engine as Bugle uses it: one node, one pump per kind of work.

use crate::broker;
use crate::bugle::Options;
use crate::jobs::sweep::Sweeper;
use crate::jobs::{EndSource, JobSource, Statements};
use bugle_wake::{Node, Place, Pump};
use sqlx::PgPool;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

pub(crate) struct Wake {
    pub(crate) node: Node,
    pub(crate) jobs: Pump<JobSource>,
    /// Started when somebody first waits for the end of a job: few processes do, and a pump that nobody needs shares in every fault.
    ends: OnceLock<Pump<EndSource>>,
}

impl Wake {
    pub(crate) fn start(
        pool: &PgPool,
        options: &Options,
        statements: &Arc<Statements>,
        broker: &Arc<broker::Statements>,
        messages_found: Arc<AtomicU64>,
    ) -> Self {
        let place = Place {
            pool: pool.clone(),
            listener: options.listener.clone().unwrap_or_else(|| (*pool.connect_options()).clone()),
            statements: bugle_wake::Statements::new(|sql| options.schema.place_in(sql)),
            node: node_name(),
        };
        let node = Node::start(options.wake.clone(), place);
        let source = JobSource::new(pool.clone(), statements.clone(), node.breaker().clone());
        let finds = [source.finds.clone(), messages_found];
        let sweeper = Sweeper::new(pool.clone(), statements.clone(), broker.clone(), finds);
        let jobs = node.pump(source);
        sweeper.beat();
        let breaker = node.breaker().clone();
        node.on_heartbeat(move || {
            if breaker.away_for().is_none() {
                sweeper.beat();
            }
        });
        Self { node, jobs, ends: OnceLock::new() }
    }

    /// The pump for the ends of jobs.
    pub(crate) fn ends(&self, pool: &PgPool, statements: &Arc<Statements>) -> &Pump<EndSource> {
        self.ends.get_or_init(|| self.node.pump(EndSource::new(pool.clone(), statements.clone())))
    }
}

/// A name for this node: host, process and something random. Unique even when a container always has the same host name and process number.
#[must_use]
pub fn node_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>())
}
