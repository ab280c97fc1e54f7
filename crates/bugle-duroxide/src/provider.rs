//! The provider's handle: how it is made, and how a fetch waits.

use crate::cache::Cache;
use crate::config::LongPollConfig;
use crate::engine::{Engine, TURNS, WORK};
use crate::metrics::{Counters, Metrics};
use crate::options::Options;
use crate::schema::DUROXIDE;
use crate::statements::Statements;
use crate::store::{Store, closed, run};
use crate::told::Told;
use crate::turns::{self, Turn};
use crate::work::{self, Claimed};
use bugle::Error;
use bugle::fuse::Fuse;
use bugle::name::SchemaName;
use bugle::pg::connect;
use bugle_wake::Node;
use duroxide::providers::ProviderError;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::OnceCell;

/// A duroxide provider on PostgreSQL.
///
/// Clones are cheap and share one wake engine; it starts with the first fetch that waits and stops with the last clone, or with
/// [`PostgresProvider::close`], which waits for that. It keeps one connection outside of the pool: a process that runs dispatchers needs as many
/// connections as its pool, and one.
#[derive(Clone)]
pub struct PostgresProvider {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<Store>,
    schema: SchemaName,
    config: LongPollConfig,
    listener: PgConnectOptions,
    /// Nobody else uses the pool.
    owns_pool: bool,
    /// `None`: closed before it was started, and never to be.
    engine: OnceLock<Option<Engine>>,
    is_closed: AtomicBool,
    closing: OnceCell<()>,
}

impl PostgresProvider {
    /// Fetches that find nothing return at once. In the schema [`crate::DEFAULT_SCHEMA`].
    pub async fn new(database_url: &str) -> Result<Self, Error> {
        Self::new_with_schema(database_url, None).await
    }

    /// The same in another schema.
    pub async fn new_with_schema(database_url: &str, schema_name: Option<&str>) -> Result<Self, Error> {
        Self::new_with_options(database_url, schema_name, LongPollConfig::default()).await
    }

    /// Fetches that find nothing wait until there is something, or until they are told to stop.
    pub async fn new_with_long_poll(database_url: &str) -> Result<Self, Error> {
        Self::new_with_long_poll_and_schema(database_url, None).await
    }

    /// The same in another schema.
    pub async fn new_with_long_poll_and_schema(
        database_url: &str,
        schema_name: Option<&str>,
    ) -> Result<Self, Error> {
        Self::new_with_options(database_url, schema_name, LongPollConfig::enabled()).await
    }

    /// With everything that there is to say about waiting.
    pub async fn new_with_options(
        database_url: &str,
        schema_name: Option<&str>,
        long_poll_config: LongPollConfig,
    ) -> Result<Self, Error> {
        let schema = schema_name.map_or_else(|| Ok(Options::default().schema), SchemaName::parse)?;
        Self::connect(database_url, Options { schema, long_poll: long_poll_config, ..Options::default() })
            .await
    }

    /// With every option, and a pool of its own.
    pub async fn connect(database_url: &str, options: Options) -> Result<Self, Error> {
        let mut connect = connect::Options::parse(database_url)?;
        connect.connections_max = options.connections_max()?;
        connect.acquire_timeout = Duration::from_secs(30);
        connect.allow_unsafe = options.allow_unsafe_database;
        Self::make(connect::pool(&connect).await?, options, true).await
    }

    /// With every option, on a pool that the caller has.
    pub async fn with_pool(pool: PgPool, options: Options) -> Result<Self, Error> {
        Self::make(pool, options, false).await
    }

    async fn make(pool: PgPool, options: Options, owns_pool: bool) -> Result<Self, Error> {
        let listener = options.listener(&pool)?;
        let Options { schema, long_poll, migrate, history_cache_bytes_max, .. } = options;
        DUROXIDE.ensure(&pool, &schema, migrate).await?;
        let store = Store {
            pool,
            sql: Statements::new(&schema),
            cache: Cache::new(history_cache_bytes_max),
            told: Told::default(),
            counters: Counters::default(),
            node: bugle::node_name(),
            acks: Fuse::default(),
            letters: Fuse::default(),
            reads: Fuse::default(),
        };
        store.check().await?;
        let shared = Shared {
            store: Arc::new(store),
            schema,
            config: long_poll,
            listener,
            owns_pool,
            engine: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            closing: OnceCell::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The orderly end, for all clones: shut the runtime down first. Fetches that wait return with nothing. What was claimed and not
    /// taken is given back, sleeping nodes are told, and the listener's connection is closed, all within some seconds. A pool that the
    /// provider made is closed as well, when the statements under way have ended; one that the caller gave stays open.
    ///
    /// Afterwards every fetch fails for good, and where the pool is closed so does every other call. To close again does nothing.
    /// Without it the engine is stopped, in the background, when the last clone is dropped.
    pub async fn close(&self) {
        let Shared { store, owns_pool, engine, is_closed, closing, .. } = &*self.shared;
        is_closed.store(true, Ordering::Release);
        let close = || async {
            // None begins from here on.
            if let Some(engine) = engine.get_or_init(|| None) {
                engine.node.stop().await;
            }
            if *owns_pool {
                store.pool.close().await;
            }
        };
        closing.get_or_init(close).await;
    }

    /// The schema that holds its tables.
    #[must_use]
    pub fn schema(&self) -> &SchemaName {
        &self.shared.schema
    }

    /// The pool that it works with.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.shared.store.pool
    }

    /// The wake engine, once a fetch has waited: what it does and what it has counted.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.shared.engine.get()?.as_ref().map(|engine| &engine.node)
    }

    /// What it has done since it was made, and how it stands. Costs the database nothing; what the database knows is asked with
    /// [`PostgresProvider::stats`].
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let store = self.store();
        Metrics::new(&store.counters, store.cache.usage(), self.node())
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    fn engine(&self, operation: &str) -> Result<&Engine, ProviderError> {
        let Shared { store, schema, config, listener, engine, .. } = &*self.shared;
        let start = || {
            let statements = bugle_wake::Statements::new(|sql| schema.place_in(sql));
            Some(Engine::start(store, config, listener.clone(), statements))
        };
        engine.get_or_init(start).as_ref().ok_or_else(|| closed(operation))
    }

    fn refuse_if_closed(&self, operation: &str) -> Result<(), ProviderError> {
        if self.shared.is_closed.load(Ordering::Acquire) {
            return Err(closed(operation));
        }
        Ok(())
    }

    /// A turn, now or within the wait. `None`: the dispatcher supports nothing.
    pub(crate) async fn fetch_turn(
        &self,
        poll_timeout: Duration,
        want: Option<turns::Want>,
    ) -> Result<Option<Turn>, ProviderError> {
        let (counters, time) = (&self.store().counters.turns, self.shared.config.wait(poll_timeout));
        counters.fetch(self.find_turn(time, want)).await
    }

    async fn find_turn(
        &self,
        time: Option<Duration>,
        want: Option<turns::Want>,
    ) -> Result<Option<Turn>, ProviderError> {
        const OPERATION: &str = "fetch_orchestration_item";
        self.refuse_if_closed(OPERATION)?;
        let Some(want) = want else { return nothing(time).await };
        if let Some(time) = time
            && let Ok(intention) = self.engine(OPERATION)?.turns.once(TURNS, want, 1)
        {
            self.store().counters.turns.fetches_waited.one();
            // Dropped with this future or at the end of the wait, it hands back what was claimed for it.
            return Ok(tokio::time::timeout(time, intention.next()).await.ok().flatten());
        }
        let store = self.store();
        let (mut turns, _) = run(OPERATION, || Box::pin(store.claim_turns(1, want))).await?;
        Ok(turns.pop())
    }

    /// Work, now or within the wait. `None`: the worker takes nothing.
    pub(crate) async fn fetch_work(
        &self,
        poll_timeout: Duration,
        want: Option<work::Want>,
    ) -> Result<Option<Claimed>, ProviderError> {
        let (counters, time) = (&self.store().counters.work, self.shared.config.wait(poll_timeout));
        counters.fetch(self.find_work(time, want)).await
    }

    async fn find_work(
        &self,
        time: Option<Duration>,
        want: Option<work::Want>,
    ) -> Result<Option<Claimed>, ProviderError> {
        const OPERATION: &str = "fetch_work_item";
        self.refuse_if_closed(OPERATION)?;
        let Some(want) = want else { return nothing(time).await };
        if let Some(time) = time
            && let Ok(intention) = self.engine(OPERATION)?.work.once(WORK, want.clone(), 1)
        {
            self.store().counters.work.fetches_waited.one();
            let claimed = tokio::time::timeout(time, intention.next()).await.ok().flatten();
            if let Some((instance, stand)) = claimed.as_ref().and_then(|work| work.history.as_ref()) {
                self.store().told.note(instance, *stand);
            }
            return Ok(claimed);
        }
        let (store, owners) = (self.store(), [want.owner.as_deref()]);
        let (mut claimed, _) = run(OPERATION, || Box::pin(store.claim_work(&owners, &want.rules))).await?;
        Ok(claimed.pop())
    }
}

/// Nothing will ever be there for one who takes nothing; to return sooner would only make the runtime ask again.
async fn nothing<T>(wait: Option<Duration>) -> Result<Option<T>, ProviderError> {
    tokio::time::sleep(wait.unwrap_or_default()).await;
    Ok(None)
}
