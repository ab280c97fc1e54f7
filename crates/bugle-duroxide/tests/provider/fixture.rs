//! What most tests begin with: a place, providers in it, and items.

use bugle_duroxide::{LongPollConfig, Options, PostgresProvider};
use bugle_testkit::postgres::TestDb;
use bugle_testkit::proxy::Proxy;
use bugle_wake::{Counters, Node};
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider as _, TagFilter, WorkItem};
use duroxide::{Event, EventKind};
use sqlx::FromRow;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) use bugle_testkit::{SOON, until};

/// So far away that whatever happens was not caused by it.
pub(crate) const HOUR: Duration = Duration::from_hours(1);
/// No wait.
pub(crate) const NOW: Duration = Duration::ZERO;

/// A claimed turn, as a runtime gets it.
pub(crate) type Turn = (OrchestrationItem, String, u32);
/// Claimed work.
pub(crate) type Work = (WorkItem, String, u32);

/// Fetches that wait, with the heartbeat so far away that nothing is found by accident. That the machine is busy with other tests is no fault.
pub(crate) fn patient() -> LongPollConfig {
    LongPollConfig {
        heartbeat: HOUR,
        fallback_poll_interval: HOUR,
        max_wait_time: HOUR,
        notify_delivery_timeout: SOON,
        ..LongPollConfig::enabled()
    }
}

pub(crate) struct Place {
    pub(crate) db: TestDb,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self { db: TestDb::schema().await.unwrap() }
    }

    pub(crate) fn options(&self, long_poll: LongPollConfig) -> Options {
        Options { schema: self.db.schema_name().unwrap(), long_poll, ..Options::default() }
    }

    /// A node of its own, with fetches that wait.
    pub(crate) async fn waiting(&self) -> PostgresProvider {
        self.provider(self.options(patient())).await
    }

    /// A provider with fetches that return at once.
    pub(crate) async fn at_once(&self) -> PostgresProvider {
        self.provider(self.options(LongPollConfig::default())).await
    }

    pub(crate) async fn provider(&self, options: Options) -> PostgresProvider {
        self.provider_on(self.db.connect_options(), options).await
    }

    /// A provider whose connections go another way, such as through a proxy.
    pub(crate) async fn provider_on(&self, connect: &PgConnectOptions, options: Options) -> PostgresProvider {
        let connect = connect.clone().application_name(self.db.name());
        let pool = PgPoolOptions::new().max_connections(8).connect_with(connect).await.unwrap();
        PostgresProvider::with_pool(pool, options).await.unwrap()
    }

    /// A proxy in front of the server, for connections that are to suffer.
    pub(crate) async fn proxy(&self) -> Proxy {
        let options = self.db.connect_options();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next();
        Proxy::start(server.unwrap()).await.unwrap()
    }

    /// A node whose listener alone goes through the proxy.
    pub(crate) async fn heard_through(&self, proxy: &Proxy, long_poll: LongPollConfig) -> PostgresProvider {
        let options = self.db.connect_options();
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let url = self.db.url().replacen(&server, &proxy.addr().to_string(), 1);
        assert_ne!(url, self.db.url());
        self.provider(Options { listener_url: Some(url), ..self.options(long_poll) }).await
    }

    /// Ends the listener's session of every node that holds a seat; how many those are.
    pub(crate) async fn end_listeners(&self) -> i64 {
        let holders = self.db.sql("SELECT DISTINCT pid FROM bugle.seat").unwrap();
        let pids: Vec<i32> = sqlx::query_scalar(holders).fetch_all(self.db.pool()).await.unwrap();
        let ended = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM unnest($1::int[]) AS pid";
        sqlx::query_scalar(ended).bind(pids).fetch_one(self.db.pool()).await.unwrap()
    }

    /// One value, from SQL written for the schema `bugle`.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> FromRow<'r, PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.db.sql(sql).unwrap()).fetch_one(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(self.db.sql(sql).unwrap()).execute(self.db.pool()).await.unwrap();
    }

    /// Waits until the node has so many intentions and sleeps.
    pub(crate) async fn asleep(&self, provider: &PostgresProvider, intentions: usize) {
        until("the node sleeps", async || {
            let Some(status) = provider.node().map(Node::status) else { return false };
            let before = provider.node().unwrap().counters().table();
            let seated = !status.seats.sentinel.is_empty() || !status.seats.reserve.is_empty();
            // That nothing happens can only be seen by watching for a while.
            tokio::time::sleep(Duration::from_millis(60)).await;
            self.is_idle().await
                && status.listening
                && status.intentions == intentions
                && seated
                && !status.alert
                && status.looking == 0
                && before == provider.node().unwrap().counters().table()
        })
        .await;
    }
}

impl Place {
    /// Is no statement under way that names this schema? A node whose statement takes long does nothing else that could be seen.
    async fn is_idle(&self) -> bool {
        let sql = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity
            WHERE state = 'active' AND pid <> pg_backend_pid() AND position($1 in query) > 0)";
        sqlx::query_scalar(sql).bind(self.db.name()).fetch_one(self.db.pool()).await.unwrap()
    }
}

/// A fetch of a turn that waits as long as a fetch may.
pub(crate) fn waiting_turn(node: &PostgresProvider) -> JoinHandle<Option<Turn>> {
    let node = node.clone();
    tokio::spawn(async move { turn(&node, HOUR, HOUR).await })
}

/// What a node has counted, once something has waited with it.
pub(crate) fn counters(node: &PostgresProvider) -> &Counters {
    node.node().expect("nothing has waited with it yet").counters()
}

/// The outcome of what must not take long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("waited {SOON:?} in vain: {what}"))
}

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Test".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

pub(crate) fn raised(instance: &str, name: &str) -> WorkItem {
    WorkItem::ExternalRaised { instance: instance.to_owned(), name: name.to_owned(), data: String::new() }
}

pub(crate) fn activity(instance: &str, id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Activity".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

pub(crate) fn event(instance: &str, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, 1, None, kind)
}

pub(crate) fn started(instance: &str) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Test".to_owned(),
        version: "1.0.0".to_owned(),
        input: "{}".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    event(instance, 1, kind)
}

pub(crate) fn named() -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Test".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    }
}

/// Starts an instance and acks its first turn with these events.
pub(crate) async fn begin(provider: &PostgresProvider, instance: &str, events: Vec<Event>) {
    provider.enqueue_for_orchestrator(start(instance), None).await.unwrap();
    let (item, token, _) = turn(provider, HOUR, NOW).await.expect("the start is due");
    assert_eq!(item.instance, instance);
    ack(provider, &token, events, vec![]).await.unwrap();
}

pub(crate) async fn turn(provider: &PostgresProvider, lease: Duration, wait: Duration) -> Option<Turn> {
    provider.fetch_orchestration_item(lease, wait, None).await.unwrap()
}

pub(crate) async fn work(provider: &PostgresProvider, lease: Duration, wait: Duration) -> Option<Work> {
    provider.fetch_work_item(lease, wait, None, &TagFilter::default()).await.unwrap()
}

pub(crate) async fn ack(
    provider: &PostgresProvider,
    token: &str,
    events: Vec<Event>,
    messages: Vec<WorkItem>,
) -> Result<(), duroxide::providers::ProviderError> {
    provider.ack_orchestration_item(token, 1, events, vec![], messages, named(), vec![]).await
}
