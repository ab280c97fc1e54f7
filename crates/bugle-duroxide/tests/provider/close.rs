//! The orderly end.

use crate::fixture::{HOUR, NOW, Place, SOON, activity, start, turn, until, work};
use bugle_duroxide::{LongPollConfig, Options, PostgresProvider};
use duroxide::providers::{Provider as _, ProviderError, TagFilter};
use std::time::{Duration, Instant};

fn is_closed(error: &ProviderError) -> bool {
    !error.is_retryable() && error.to_string().contains("the provider is closed")
}

/// Sessions that the provider opened: its pool's and its listener's.
async fn sessions(place: &Place, name: &str) -> i64 {
    place.one(&format!("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%{name}%'")).await
}

#[tokio::test]
async fn a_fetch_that_waits_returns_and_the_listener_is_gone() {
    let place = Place::new().await;
    let node = place.waiting().await;
    let fetch = tokio::spawn({
        let node = node.clone();
        async move { turn(&node, HOUR, HOUR).await }
    });
    place.asleep(&node, 1).await;
    let begun = Instant::now();
    node.clone().close().await;
    assert!(fetch.await.unwrap().is_none());
    assert!(begun.elapsed() < SOON);
    assert_eq!(place.one::<i64>("SELECT count(*) FROM bugle.seat").await, 0);
    assert!(!node.metrics().listening);
    node.close().await;
    node.close().await;
}

#[tokio::test]
async fn afterwards_a_fetch_fails_for_good_and_a_pool_that_was_given_is_open() {
    let place = Place::new().await;
    let (waiting, at_once, unused) = (place.waiting().await, place.at_once().await, place.waiting().await);
    assert!(turn(&waiting, HOUR, Duration::from_millis(1)).await.is_none());
    for provider in [&waiting, &at_once, &unused] {
        provider.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
        let (_, token, _) = work(provider, HOUR, NOW).await.unwrap();
        provider.close().await;
        for wait in [NOW, HOUR] {
            let begun = Instant::now();
            let turns = provider.fetch_orchestration_item(HOUR, wait, None).await;
            let work = provider.fetch_work_item(HOUR, wait, None, &TagFilter::default()).await;
            assert!(is_closed(&turns.unwrap_err()) && is_closed(&work.unwrap_err()));
            assert!(begun.elapsed() < SOON);
        }
        assert!(!provider.pool().is_closed());
        provider.ack_work_item(&token, None).await.unwrap(); // what was taken before may be ended
    }
    assert!(unused.node().is_none(), "nothing was started to be stopped");
}

#[tokio::test]
async fn a_pool_of_its_own_is_closed_and_every_call_says_so() {
    let place = Place::new().await;
    let name = format!("own_{}", place.db.name());
    let url = format!(
        "{}{}application_name={name}",
        place.db.url(),
        if place.db.url().contains('?') { '&' } else { '?' }
    );
    let options = Options { listener_url: Some(url.clone()), ..place.options(LongPollConfig::enabled()) };
    let provider = PostgresProvider::connect(&url, options).await.unwrap();
    provider.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(turn(&provider, HOUR, SOON).await.is_some());
    assert!(sessions(&place, &name).await > 0);
    tokio::join!(provider.close(), provider.close()); // neither returns before it is done
    assert!(provider.pool().is_closed());
    until("the server has noticed", async || sessions(&place, &name).await == 0).await;
    assert!(is_closed(&provider.enqueue_for_orchestrator(start("j"), None).await.unwrap_err()));
    assert!(is_closed(&provider.read("i").await.unwrap_err()));
    assert!(is_closed(&provider.fetch_orchestration_item(HOUR, NOW, None).await.unwrap_err()));
}

/// Whatever a look claimed for a fetch that the close has ended is anybody's at once.
#[tokio::test]
async fn what_was_claimed_and_not_taken_is_given_back() {
    let place = Place::new().await;
    let next = place.at_once().await;
    next.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    for n in 0..20 {
        let node = place.waiting().await;
        let fetch = tokio::spawn({
            let node = node.clone();
            async move { turn(&node, HOUR, HOUR).await }
        });
        // Closed at ever other moments: the look not begun, sent, answered, handed out.
        tokio::time::sleep(Duration::from_micros(500 * n)).await;
        node.close().await;
        if let Ok(Some((_, token, _))) = fetch.await {
            next.abandon_orchestration_item(&token, None, true).await.unwrap();
        }
        let (_, token, attempt) = turn(&next, HOUR, NOW).await.expect("nobody holds it");
        assert_eq!(attempt, 1);
        next.abandon_orchestration_item(&token, None, true).await.unwrap();
    }
}
