//! Fetches that wait: who is served, by what, and what becomes of those that are dropped.

use crate::fixture::{HOUR, NOW, Place, SOON, activity, begin, raised, start, started, turn, until, work};
use bugle_duroxide::{LongPollConfig, PostgresProvider};
use duroxide::providers::{Provider as _, SessionFetchConfig, TagFilter};
use std::time::{Duration, Instant};

/// Is the server session still there?
async fn is_there(place: &Place, session: i32) -> bool {
    place.one(&format!("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {session})")).await
}

/// The session of a node's listener.
async fn listener(place: &Place, node: &PostgresProvider) -> i32 {
    let fetch = tokio::spawn({
        let node = node.clone();
        async move { turn(&node, HOUR, SOON).await }
    });
    place.asleep(node, 1).await;
    let session = place.one("SELECT pid FROM bugle.seat LIMIT 1").await;
    fetch.abort();
    session
}

#[tokio::test]
async fn clones_share_one_engine_and_the_last_one_stops_it() {
    let place = Place::new().await;
    let one = place.waiting().await;
    let two = one.clone();
    let session = listener(&place, &one).await;
    turn(&two, HOUR, Duration::from_millis(1)).await;
    assert!(std::ptr::eq(one.node().unwrap(), two.node().unwrap()));
    drop(one);
    two.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(turn(&two, HOUR, SOON).await.is_some(), "the engine works on");
    assert!(is_there(&place, session).await);
    drop(two);
    until("the listener is gone", async || !is_there(&place, session).await).await;
}

#[tokio::test]
async fn a_client_that_never_waits_has_no_listener() {
    let place = Place::new().await;
    let client = place.waiting().await;
    client.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    assert!(turn(&client, HOUR, NOW).await.is_some());
    assert!(client.node().is_none());
}

#[tokio::test]
async fn a_fetch_that_may_not_wait_does_not() {
    let place = Place::new().await;
    let (waiting, at_once) = (place.waiting().await, place.at_once().await);
    for (provider, wait) in [(&waiting, NOW), (&at_once, HOUR)] {
        let begun = Instant::now();
        assert!(turn(provider, HOUR, wait).await.is_none());
        assert!(work(provider, HOUR, wait).await.is_none());
        assert!(begun.elapsed() < SOON);
        assert!(provider.node().is_none(), "no engine is needed for it");
    }
}

#[tokio::test]
async fn a_wait_ends_after_the_longest_wait_of_the_configuration() {
    let place = Place::new().await;
    let longest = Duration::from_millis(300);
    let config = LongPollConfig { max_wait_time: longest, ..LongPollConfig::enabled() };
    let provider = place.provider(place.options(config)).await;
    let begun = Instant::now();
    assert!(turn(&provider, HOUR, HOUR).await.is_none());
    assert!((longest..SOON).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn one_look_serves_all_who_wait() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let node = node.clone();
            tokio::spawn(async move { turn(&node, HOUR, SOON).await })
        })
        .collect();
    place.asleep(&node, 4).await;
    let looks = node.node().unwrap().counters().looks.get();
    // In one transaction: one ring.
    place
        .execute("BEGIN; SELECT bugle.enqueue_message('i' || n, 'start', '{\"StartOrchestration\":{\"instance\":\"i' || n || '\",\"orchestration\":\"Test\",\"input\":\"\",\"version\":null,\"parent_instance\":null,\"parent_id\":null,\"execution_id\":1}}', '0') FROM generate_series(1, 4) AS n; COMMIT")
        .await;
    let mut instances = Vec::new();
    for wait in waits {
        instances.push(wait.await.unwrap().expect("a turn for each").0.instance);
    }
    instances.sort();
    assert_eq!(instances, ["i1", "i2", "i3", "i4"]);
    assert_eq!(node.node().unwrap().counters().looks.get() - looks, 1);
    drop(producer);
}

#[tokio::test]
async fn whoever_joins_those_who_wait_in_vain_needs_no_look() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let wait = |node: &PostgresProvider| {
        let node = node.clone();
        tokio::spawn(async move { turn(&node, HOUR, SOON).await })
    };
    let first = wait(&node);
    place.asleep(&node, 1).await;
    let looks = node.node().unwrap().counters().looks.get();
    let second = wait(&node);
    place.asleep(&node, 2).await;
    assert_eq!(node.node().unwrap().counters().looks.get(), looks);
    for instance in ["a", "b"] {
        producer.enqueue_for_orchestrator(start(instance), None).await.unwrap();
    }
    assert!(first.await.unwrap().is_some() && second.await.unwrap().is_some(), "both are woken");
}

/// A worker that has the session wakes for its work, although others were there first.
#[tokio::test]
async fn work_of_a_session_goes_to_whoever_has_it() {
    let place = Place::new().await;
    let (node, producer) = (place.waiting().await, place.at_once().await);
    let fetch = |owner: &str| {
        let (node, session) =
            (node.clone(), SessionFetchConfig { owner_id: owner.to_owned(), lock_timeout: HOUR });
        tokio::spawn(async move {
            node.fetch_work_item(HOUR, SOON, Some(&session), &TagFilter::default()).await.unwrap()
        })
    };
    producer.enqueue_for_worker(activity("i", 1, Some("s"))).await.unwrap();
    assert!(fetch("owner").await.unwrap().is_some());
    let (other, owner) = (fetch("other"), fetch("owner"));
    place.asleep(&node, 2).await;
    producer.enqueue_for_worker(activity("i", 2, Some("s"))).await.unwrap();
    let (item, ..) = owner.await.unwrap().expect("his session's work");
    assert_eq!(item, activity("i", 2, Some("s")));
    producer.enqueue_for_worker(activity("i", 3, None)).await.unwrap();
    let (item, ..) = other.await.unwrap().expect("anybody's work");
    assert_eq!(item, activity("i", 3, None));
}

/// What was claimed for somebody who went comes back at once, and the attempt does not count.
#[tokio::test]
async fn a_dropped_fetch_gives_back_what_was_claimed_for_it() {
    let place = Place::new().await;
    let node = place.waiting().await;
    node.enqueue_for_orchestrator(start("i"), None).await.unwrap();
    node.enqueue_for_worker(activity("i", 1, None)).await.unwrap();
    for n in 0..40 {
        // Dropped at ever other moments: the look not begun, sent, answered, handed out.
        let patience = Duration::from_micros(100 * n);
        if let Ok(Some((_, token, _))) = tokio::time::timeout(patience, turn(&node, HOUR, SOON)).await {
            node.abandon_orchestration_item(&token, None, true).await.unwrap();
        }
        if let Ok(Some((_, token, _))) = tokio::time::timeout(patience, work(&node, HOUR, SOON)).await {
            node.abandon_work_item(&token, None, true).await.unwrap();
        }
    }
    let (_, _, attempt) = turn(&node, HOUR, SOON).await.expect("it is there again");
    assert_eq!(attempt, 1);
    let (_, _, attempt) = work(&node, HOUR, SOON).await.expect("it is there again");
    assert_eq!(attempt, 1);
    assert!(
        node.node().unwrap().counters().hand_backs.get() > 0,
        "nothing was claimed for anybody who had gone"
    );
}

/// Messages for an instance that has not begun wait for its start, and are in nobody's way.
#[tokio::test]
async fn what_overtakes_its_start_is_kept_and_blocks_nobody() {
    let place = Place::new().await;
    let provider = place.at_once().await;
    provider.enqueue_for_orchestrator(raised("late", "first"), None).await.unwrap();
    begin(&provider, "other", vec![started("other")]).await;
    assert!(turn(&provider, HOUR, NOW).await.is_none());
    provider.enqueue_for_orchestrator(start("late"), None).await.unwrap();
    let (item, _, attempt) = turn(&provider, HOUR, NOW).await.expect("it may begin");
    assert_eq!((item.messages.len(), attempt), (2, 1));
    assert_eq!(item.messages[0], raised("late", "first"));
}
