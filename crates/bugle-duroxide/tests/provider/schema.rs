//! The migration set: alone in any schema, and only checked where nothing may be changed.

use crate::fixture::{HOUR, NOW, Place, SOON, patient, start, turn};
use bugle_duroxide::{DUROXIDE, LongPollConfig, Options, Policy, PostgresProvider};
use duroxide::providers::Provider as _;

#[tokio::test]
async fn a_node_that_may_only_look_refuses_an_empty_schema_and_takes_a_full_one() {
    let place = Place::new().await;
    let look_only = || Options { migrate: Policy::Verify, ..place.options(LongPollConfig::default()) };
    let refused = PostgresProvider::with_pool(place.db.pool().clone(), look_only()).await;
    let message = refused.err().expect("there are no tables").to_string();
    assert!(message.contains("lacks 9 of the migrations"), "{message}");
    assert!(message.contains("Policy::Apply") && !message.contains("bugle migrate"), "{message}");
    drop(place.at_once().await);
    let provider = PostgresProvider::with_pool(place.db.pool().clone(), look_only()).await.unwrap();
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(turn(&provider, HOUR, NOW).await.is_some());
}

/// In another isolation level a message that comes while an ack waits for its lock would be lost.
#[tokio::test]
async fn a_pool_in_another_isolation_level_is_refused() {
    let place = Place::new().await;
    drop(place.at_once().await);
    let connect =
        place.db.connect_options().clone().options([("default_transaction_isolation", "serializable")]);
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(connect).await.unwrap();
    let refused = PostgresProvider::with_pool(pool, place.options(LongPollConfig::default())).await;
    let message = refused.err().expect("it is serializable").to_string();
    assert!(message.contains("READ COMMITTED") && message.contains("serializable"), "{message}");
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let place = Place::new().await;
    let (one, two) = tokio::join!(place.at_once(), place.at_once());
    drop((one, two));
    let rows: i64 = place.one("SELECT count(*) FROM bugle.migration WHERE set = 'duroxide'").await;
    assert_eq!(usize::try_from(rows).unwrap(), DUROXIDE.files.len());
}

#[tokio::test]
async fn the_listener_goes_where_it_is_told() {
    let place = Place::new().await;
    let url = |url: &str| Options { listener_url: Some(url.to_owned()), ..place.options(patient()) };
    let nowhere = PostgresProvider::with_pool(place.db.pool().clone(), url("mysql://localhost")).await;
    assert!(nowhere.is_err());
    let node = place.provider(url(place.db.url())).await;
    let fetch = tokio::spawn({
        let node = node.clone();
        async move { turn(&node, HOUR, SOON).await }
    });
    place.asleep(&node, 1).await;
    let by_pool = "SELECT count(*) FROM bugle.seat s JOIN pg_stat_activity a ON a.pid = s.pid WHERE a.application_name = current_setting('application_name')";
    assert_eq!(place.one::<i64>(by_pool).await, 0, "outside of the pool");
    place.at_once().await.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(fetch.await.unwrap().is_some());
}

/// Nobody reads the constructors' strings but here.
#[tokio::test]
async fn every_constructor_connects() {
    let place = Place::new().await;
    let (url, schema) = (place.db.url(), Some(place.db.name()));
    let long_poll = LongPollConfig { enabled: true, ..LongPollConfig::default() };
    let at_once = PostgresProvider::new_with_schema(url, schema).await.unwrap();
    let waiting = PostgresProvider::new_with_long_poll_and_schema(url, schema).await.unwrap();
    let with_options = PostgresProvider::new_with_options(url, schema, long_poll).await.unwrap();
    at_once.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(turn(&with_options, HOUR, HOUR).await.is_some());
    for provider in [&at_once, &waiting, &with_options] {
        assert_eq!(provider.schema().as_str(), place.db.name());
        assert_eq!(provider.pool().options().get_max_connections(), 10);
    }
    assert!(PostgresProvider::new_with_schema(url, Some("no.schema")).await.is_err());
    assert!(PostgresProvider::new("mysql://localhost").await.is_err());
}
