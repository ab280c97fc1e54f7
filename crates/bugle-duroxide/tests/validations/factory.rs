//! Providers for duroxide's suite, each in a schema of its own.

use async_trait::async_trait;
use bugle_duroxide::{LongPollConfig, Options, PostgresProvider};
use bugle_testkit::postgres::TestDb;
use duroxide::provider_validations::ProviderFactory;
use duroxide::providers::Provider;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Making a schema keeps a core busy for a while, and several cases allow 100 ms for everything else: not all at once.
static MAKING: Semaphore = Semaphore::const_new(2);
/// Nor dropping one.
static DROPPING: Mutex<()> = Mutex::new(());

pub(crate) struct Factory {
    long_poll: LongPollConfig,
    corruption: &'static str,
    /// The places of the providers made so far.
    places: Mutex<Vec<Arc<TestDb>>>,
}

impl Factory {
    /// Fetches that find nothing wait.
    pub(crate) fn waiting() -> Self {
        Self::new(LongPollConfig::enabled())
    }

    /// Fetches that find nothing return at once.
    pub(crate) fn at_once() -> Self {
        Self::new(LongPollConfig::default())
    }

    fn new(long_poll: LongPollConfig) -> Self {
        let corruption = r#"{"event_id": 1, "type": "OfANewerVersion"}"#;
        Self { long_poll, corruption, places: Mutex::default() }
    }

    /// The same, with text in the history that is not even JSON.
    pub(crate) fn corrupting_with_garbage(mut self) -> Self {
        self.corruption = "{no JSON, \\u0000 and an open \" quote";
        self
    }

    fn last_place(&self) -> Arc<TestDb> {
        self.places.lock().unwrap().last().expect("no provider was made yet").clone()
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        let _alone = DROPPING.lock().unwrap_or_else(PoisonError::into_inner);
        self.places.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let _one_of_few = MAKING.acquire().await.unwrap();
        let place = Arc::new(TestDb::schema().await.unwrap());
        let options = Options {
            schema: place.schema_name().unwrap(),
            long_poll: self.long_poll.clone(),
            ..Options::default()
        };
        let provider = PostgresProvider::with_pool(place.pool().clone(), options).await.unwrap();
        self.places.lock().unwrap().push(place);
        // The first call on a connection makes the server's plans.
        assert!(
            provider.fetch_orchestration_item(Duration::ZERO, Duration::ZERO, None).await.unwrap().is_none()
        );
        Arc::new(provider)
    }

    /// Several cases wait for a lease of 30 s whatever is said here.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// The machine is busy with many cases at once.
    fn short_poll_threshold(&self) -> Duration {
        Duration::from_secs(5)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let place = self.last_place();
        let sql = place.sql("UPDATE bugle.history SET data = $2 WHERE instance = $1").unwrap();
        let done = sqlx::query(sql).bind(instance).bind(self.corruption).execute(place.pool()).await.unwrap();
        assert!(done.rows_affected() > 0, "{instance} has no history");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let place = self.last_place();
        let sql = place.sql("SELECT max(attempt) FROM bugle.message WHERE instance = $1").unwrap();
        let most: i32 = sqlx::query_scalar(sql).bind(instance).fetch_one(place.pool()).await.unwrap();
        u32::try_from(most).unwrap()
    }
}
