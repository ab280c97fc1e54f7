//! The handle that everything starts from.

use crate::Error;
use crate::broker::{self, MessageSource};
use crate::flow;
use crate::fuse::Fuse;
use crate::jobs::inspect::same_cluster;
use crate::jobs::{Company, EndSource, Enqueues, Statements};
use crate::name::{NamespaceName, QueueName, SchemaName};
use crate::pg::migrate::{CORE, Policy};
use crate::pg::{self, connect};
use crate::wake::Wake;
use bugle_wake::{Number, Pump};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgPool, Postgres};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How a [`Bugle`] is set up; every field has a default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The schema that holds Bugle's tables.
    pub schema: SchemaName,
    /// The namespace that this handle works in.
    pub namespace: NamespaceName,
    /// What to do about a schema that is not up to date.
    pub migrate: Policy,
    /// How waiting consumers are woken.
    pub wake: bugle_wake::Options,
    /// Where the listener connects, straight to the server; `None`: where the pool does. Needed behind a pooler in transaction mode.
    /// A hook of your pool's (`after_connect`) does not run on the listener's connection, nor on the one that looks are made on.
    pub listener: Option<PgConnectOptions>,
}

/// A handle to Bugle in one schema and namespace. Cheap to clone.
#[derive(Clone)]
pub struct Bugle {
    home: Arc<Home>,
    space: Arc<Space>,
}

/// What there is once, whatever namespaces a process works in.
struct Home {
    pool: PgPool,
    options: Options,
    statements: Arc<Statements>,
    broker: Arc<broker::Statements>,
    flow: Arc<flow::Statements>,
    wake: OnceLock<Wake>,
    company: Arc<Company>,
    flow_counters: flow::Counters,
    /// Looks for messages that found something.
    finds: Arc<AtomicU64>,
}

/// One namespace, and what this process knows of it.
struct Space {
    name: NamespaceName,
    number: i32,
    /// The queues that were used here: an enqueue knows a name, a ring a number.
    queues: Mutex<HashMap<QueueName, Number>>,
    enqueues: Fuse<Enqueues>,
    broker: broker::Shared,
    /// Started when somebody first waits for a message.
    messages: OnceLock<Pump<MessageSource>>,
    flow: flow::Shared,
}

impl Space {
    fn new(home: &Home, name: NamespaceName, number: i32) -> Self {
        Self {
            name,
            number,
            queues: Mutex::default(),
            enqueues: Fuse::default(),
            broker: broker::Shared::new(home.broker.clone(), home.finds.clone()),
            messages: OnceLock::new(),
            flow: flow::Shared::new(home.flow.clone()),
        }
    }
}

impl Bugle {
    /// Connects to the database at `url` with default options; makes the schema if it is not there.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let pool = connect::pool(&connect::Options::parse(url)?).await?;
        Self::new(pool, Options::default()).await
    }

    /// Works on a pool of your own. Check it with [`connect::check_server`] if it was not made by [`connect::pool`].
    pub async fn new(pool: PgPool, options: Options) -> Result<Self, Error> {
        CORE.ensure(&pool, &options.schema, options.migrate).await?;
        let home = Home {
            statements: Arc::new(Statements::new(&options.schema)),
            broker: Arc::new(broker::Statements::new(&options.schema)),
            flow: Arc::new(flow::Statements::new(&options.schema)),
            wake: OnceLock::new(),
            company: Arc::default(),
            flow_counters: flow::Counters::default(),
            finds: Arc::default(),
            pool,
            options,
        };
        let name = home.options.namespace.clone();
        let number = find_namespace(&home.pool, &home.statements, &name).await?;
        let space = Arc::new(Space::new(&home, name, number));
        let bugle = Self { home: Arc::new(home), space };
        bugle.check_cluster().await?;
        Ok(bugle)
    }

    /// The same in another namespace: on the same pool and wake engine, so that a thousand namespaces cost one listener and one heartbeat.
    /// Closing any of the handles closes all.
    pub async fn in_namespace(&self, name: &NamespaceName) -> Result<Self, Error> {
        let number = find_namespace(self.pool(), self.statements(), name).await?;
        Ok(self.with_namespace(name.clone(), number))
    }

    /// The same for a namespace whose number is known.
    pub(crate) fn with_namespace(&self, name: NamespaceName, number: i32) -> Self {
        Self { home: self.home.clone(), space: Arc::new(Space::new(&self.home, name, number)) }
    }

    /// Begins a transaction on the pool. Unlike `pool().begin()` this may be dropped at any moment, as handlers are that lose their lease or run
    /// out of time: sqlx 0.9.0 would leave the connection inside a transaction that nobody ends, and what others write there would be lost. A pool
    /// that was made by [`connect::pool`] mends that after Bugle has interrupted a handler; one of your own does not.
    pub async fn begin(&self) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, sqlx::Error> {
        pg::begin(self.pool()).await
    }

    /// The pool that Bugle's own statements run on.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.home.pool
    }

    /// The schema that holds the tables.
    #[must_use]
    pub fn schema(&self) -> &SchemaName {
        &self.home.options.schema
    }

    /// The namespace that this handle works in.
    #[must_use]
    pub fn namespace(&self) -> &NamespaceName {
        &self.space.name
    }

    /// Its number in the database.
    pub(crate) fn namespace_number(&self) -> i32 {
        self.space.number
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.home.statements
    }

    pub(crate) fn enqueues(&self) -> &Fuse<Enqueues> {
        &self.space.enqueues
    }

    /// The jobs that run here and were lost with a worker before.
    pub(crate) fn company(&self) -> &Arc<Company> {
        &self.home.company
    }

    /// The wake engine of this handle, its clones and its likes in other namespaces, started when it is first needed.
    pub(crate) fn wake(&self) -> &Wake {
        let home = &self.home;
        home.wake.get_or_init(|| {
            Wake::start(&home.pool, &home.options, &home.statements, &home.broker, home.finds.clone())
        })
    }

    /// A connection of the pool, for what a node does again and again by itself: while the database is away it waits with everybody else.
    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        let acquired = match self.node() {
            Some(node) => node.breaker().acquire(self.pool()).await,
            None => self.pool().acquire().await,
        };
        acquired.map_err(Error::connecting)
    }

    /// Returns when the database is there, as far as is known.
    pub(crate) async fn is_there(&self) {
        if let Some(node) = self.node() {
            node.breaker().closed().await;
        }
    }

    /// Something failed: may the database be away?
    pub(crate) fn suspect(&self, error: &Error) {
        if let Some(node) = self.node().filter(|_| error.is_away()) {
            node.breaker().trip();
        }
    }

    /// The pump for the ends of jobs, started when it is first needed.
    pub(crate) fn ends(&self) -> &Pump<EndSource> {
        self.wake().ends(&self.home.pool, &self.home.statements)
    }

    /// What the brokers of this handle share.
    pub(crate) fn broker_shared(&self) -> &broker::Shared {
        &self.space.broker
    }

    /// What the workflows of this handle share.
    pub(crate) fn flow_shared(&self) -> &flow::Shared {
        &self.space.flow
    }

    /// What this process has done for workflows, in all namespaces.
    pub(crate) fn flow_counters(&self) -> &flow::Counters {
        &self.home.flow_counters
    }

    /// The pump for messages, started when somebody first waits for one.
    pub(crate) fn messages(&self, source: &MessageSource) -> &Pump<MessageSource> {
        self.space.messages.get_or_init(|| self.wake().node.pump(source.clone()))
    }

    /// Stops the wake engine and closes the pool: what was claimed and not taken is handed back, and sleeping peers are told.
    /// Without it all that happens when the last handle is dropped, in the background.
    pub async fn close(&self) {
        if let Some(node) = self.node() {
            node.stop().await;
        }
        self.space.broker.close().await;
        self.pool().close().await;
    }

    /// The wake engine, if anything has waited yet.
    #[must_use]
    pub fn node(&self) -> Option<&bugle_wake::Node> {
        self.home.wake.get().map(|wake| &wake.node)
    }

    /// Changes whenever something was set that every node must know, and whenever that may have been missed: for parts that ask the database then
    /// what it was. Starts the wake engine.
    #[must_use]
    pub fn control_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.wake().node.control_changes()
    }

    /// This process has committed work for a queue.
    pub(crate) fn wake_local(&self, number: i32) {
        if let Some(node) = self.node() {
            node.local(Number(number));
        }
    }

    pub(crate) fn wake_local_by_name(&self, name: &QueueName) {
        if let Some(number) = self.number_of(name) {
            self.wake_local(number.0);
        }
    }

    /// From now on the number of a queue is known.
    pub(crate) fn remember(&self, name: &QueueName, number: i32) {
        self.queues().insert(name.clone(), Number(number));
    }

    /// The number of a queue that was used before.
    pub(crate) fn number_of(&self, name: &QueueName) -> Option<Number> {
        self.queues().get(name).copied()
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<QueueName, Number>> {
        self.space.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a namespace; `false` = it was there already.
    pub async fn create_namespace(&self, name: &NamespaceName) -> Result<bool, Error> {
        sqlx::query_scalar(self.statements().declare_namespace())
            .bind(name.as_str())
            .fetch_one(self.pool())
            .await
            .map_err(Error::executing)
    }

    /// The names of all namespaces.
    pub async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        sqlx::query_scalar(self.statements().list_namespaces())
            .fetch_all(self.pool())
            .await
            .map_err(Error::executing)
    }

    /// Job rows carry the transaction numbers of the cluster that wrote them. After a restore into another cluster they are meaningless,
    /// and a claim could pass over rows for ever: refuse before that.
    async fn check_cluster(&self) -> Result<(), Error> {
        if same_cluster(self.pool(), self.schema()).await? {
            return Ok(());
        }
        Err(Error::Unsafe(format!(
            "schema {0} was restored from another database cluster; run SELECT {0}.rebase() once, with no worker running",
            self.schema()
        )))
    }
}

/// The number of a namespace. It is never made by using it: a misspelt one would hide its jobs.
async fn find_namespace(pool: &PgPool, statements: &Statements, name: &NamespaceName) -> Result<i32, Error> {
    let number =
        sqlx::query_scalar(statements.find_namespace()).bind(name.as_str()).fetch_optional(pool).await;
    number.map_err(Error::executing)?.ok_or_else(|| Error::Invalid {
        what: "namespace",
        fault: format!("{:?} does not exist", name.as_str()),
        next: "make it with `bugle namespace create`",
    })
}
