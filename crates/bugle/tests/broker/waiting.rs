//! Who waits is served, on time, by one look.
use crate::fixture::{HOUR, Place, SOON, any, payloads, until};
use bugle::broker::{Pop, Popped, Verdict};
use bugle::{Bugle, Error};
use std::time::Duration;
use tokio::task::JoinHandle;

type Waiter = JoinHandle<Result<Option<Popped>, Error>>;

fn wait(bugle: &Bugle, pop: Pop) -> Waiter {
    let broker = bugle.broker();
    tokio::spawn(async move { broker.pop_within(&pop, HOUR).await })
}

/// So many wait, registered one after the other.
async fn crowd(bugle: &Bugle, pops: impl IntoIterator<Item = Pop>) -> Vec<Waiter> {
    let mut waiters = Vec::new();
    for (i, pop) in pops.into_iter().enumerate() {
        waiters.push(wait(bugle, pop));
        until("it is registered", async || bugle.node().is_some_and(|node| node.status().intentions > i))
            .await;
    }
    waiters
}

async fn answer(waiter: Waiter) -> Popped {
    tokio::time::timeout(SOON, waiter).await.expect("not served").unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn a_hundred_wait_one_message_comes_one_look_is_sent_and_one_gets_it() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let mut waiters = crowd(&bugle, (0..100).map(|_| any(10))).await;
    place.asleep(&bugle, 100).await;
    let before = place.looks().await;

    place.push("a", [1]).await;
    until("somebody is served", async || waiters.iter().any(JoinHandle::is_finished)).await;
    place.quiet(&bugle).await;

    assert_eq!(place.looks().await - before, 1, "one look for a hundred who wait");
    assert_eq!(waiters.iter().filter(|waiter| waiter.is_finished()).count(), 1, "exactly one is served");
    assert_eq!(payloads(&answer(waiters.remove(0)).await.messages), [1], "the first");
    assert_eq!(bugle.node().unwrap().status().intentions, 99, "the others still wait");
}

#[tokio::test]
async fn one_look_gives_every_claimable_partition_to_a_waiter_of_its_own() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let waiters = crowd(&bugle, (0..20).map(|_| any(10))).await;
    place.asleep(&bugle, 20).await;
    let before = place.looks().await;
    let messages = (0..20).map(|n| crate::fixture::message("q", &n.to_string(), n)).collect();
    place.broker.push(messages).await.unwrap();
    let mut got = Vec::new();
    for waiter in waiters {
        let popped = answer(waiter).await;
        assert_eq!(popped.messages.len(), 1);
        got.push((popped.token, popped.messages[0].partition));
    }
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await - before, 1);
    got.sort();
    got.dedup_by_key(|(token, _)| *token);
    assert_eq!(got.len(), 20, "a lease each");
}

/// More than one statement asks for.
const CROWD: i32 = 450;
const PUSHED: i32 = 300;

#[tokio::test]
async fn of_a_crowd_that_takes_anything_the_first_are_served() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let mut waiters = crowd(&bugle, (0..CROWD).map(|_| any(10))).await;
    place.asleep(&bugle, usize::try_from(CROWD).unwrap()).await;
    let messages = (0..PUSHED).map(|n| crate::fixture::message("q", &n.to_string(), n)).collect();
    place.broker.push(messages).await.unwrap();
    let rest = waiters.split_off(usize::try_from(PUSHED).unwrap());
    let mut got = Vec::new();
    for waiter in waiters {
        got.extend(payloads(&answer(waiter).await.messages));
    }
    got.sort_unstable();
    assert_eq!(got, (0..PUSHED).collect::<Vec<_>>());
    place.quiet(&bugle).await;
    assert!(rest.iter().all(|waiter| !waiter.is_finished()), "those who came later wait on");
}

#[tokio::test]
async fn of_a_crowd_with_partitions_of_their_own_those_are_served_whose_partition_has_something() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let pops = (0..CROWD).map(|n| any(10).partition(&n.to_string()).unwrap());
    let mut waiters = crowd(&bugle, pops).await;
    place.asleep(&bugle, usize::try_from(CROWD).unwrap()).await;
    let before = place.looks().await;
    place.push("440", [440]).await;
    let last = waiters.remove(440);
    assert_eq!(payloads(&answer(last).await.messages), [440]);
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await - before, 2, "what is new, and for whom of them");
    let messages = (0..PUSHED).map(|n| crate::fixture::message("q", &n.to_string(), n)).collect();
    place.broker.push(messages).await.unwrap();
    let rest = waiters.split_off(usize::try_from(PUSHED).unwrap());
    for (waiter, n) in waiters.into_iter().zip(0..) {
        assert_eq!(payloads(&answer(waiter).await.messages), [n], "each its own");
    }
    place.quiet(&bugle).await;
    assert!(rest.iter().all(|waiter| !waiter.is_finished()), "nothing came for them");
}

#[tokio::test]
async fn waiters_of_several_groups_and_partitions_are_served_by_one_look() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let group = |name: &str| any(10).group(name).unwrap();
    let bound = |name: &str, partition: &str| group(name).partition(partition).unwrap();
    let pops = [group("x"), group("y"), bound("x", "b"), bound("y", "c"), bound("x", "b")];
    let mut waiters = crowd(&bugle, pops).await;
    place.asleep(&bugle, 5).await;
    let before = place.looks().await;
    place.push("b", [1]).await;
    let (y, b) = (answer(waiters.remove(1)).await, answer(waiters.remove(1)).await);
    place.quiet(&bugle).await;
    assert_eq!(place.looks().await - before, 1, "one look for all groups");
    assert_eq!((payloads(&y.messages), payloads(&b.messages)), (vec![1], vec![1]));
    assert!(!waiters.iter().any(JoinHandle::is_finished), "whoever is bound to the partition goes before");
    place.push("c", [2]).await;
    assert_eq!(payloads(&answer(waiters.remove(0)).await.messages), [2], "x, any partition");
    assert_eq!(payloads(&answer(waiters.remove(0)).await.messages), [2], "y, bound to c");
    bugle.broker().settle(&crate::fixture::verdicts(&b, Verdict::Ack)).await.unwrap();
    place.push("b", [3]).await;
    assert_eq!(payloads(&answer(waiters.remove(0)).await.messages), [3], "and the second who is bound to b");
}

#[tokio::test]
async fn a_push_on_one_node_wakes_a_pop_on_another() {
    let place = Place::new().await;
    let (here, there) = (place.node().await, place.node().await);
    let waiter = wait(&there, any(1));
    place.asleep(&there, 1).await;
    here.broker().push(vec![crate::fixture::message("q", "a", 1)]).await.unwrap();
    assert_eq!(payloads(&answer(waiter).await.messages), [1]);
    assert_eq!(there.node().unwrap().counters().rings.get(), 1);
}

#[tokio::test]
async fn what_is_settled_on_one_node_wakes_a_pop_on_another() {
    let place = Place::new().await;
    let there = place.node().await;
    place.push("a", [1, 2]).await;
    let popped = place.pop(1).await;
    let waiter = wait(&there, any(1));
    place.asleep(&there, 1).await;
    place.settle(&popped, Verdict::Ack).await;
    assert_eq!(payloads(&answer(waiter).await.messages), [2]);
}

#[tokio::test]
async fn the_end_of_a_lease_is_noticed_on_time() {
    let place = Place::new().await;
    let bugle = place.node().await;
    place.push("a", [1]).await;
    let short = any(1).lease(Duration::from_millis(700)).unwrap();
    let held = place.broker.pop(&short).await.unwrap().unwrap();
    let again = answer(wait(&bugle, any(1))).await;
    assert_eq!(payloads(&again.messages), [1]);
    let early = format!("SELECT '{}'::timestamptz > clock_timestamp()", held.messages[0].until.unwrap());
    assert!(!place.one::<bool>(&early).await);
}

#[tokio::test]
async fn a_waiter_that_goes_gives_back_what_was_claimed_for_it() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let (broker, pop) = (bugle.broker(), any(1));
    for round in 1..=5 {
        let mut waiting = Box::pin(broker.pop_within(&pop, HOUR));
        let registered = async {
            until("it waits", async || {
                bugle.node().is_some_and(|node| node.status().intentions == 1 && node.status().looking == 0)
            })
            .await;
        };
        tokio::select! {
            _ = &mut waiting => panic!("nothing was there"),
            () = registered => {}
        }
        let hand_outs = bugle.node().unwrap().counters().hand_outs.get();
        place.push("a", [round]).await;
        until("it was served", async || bugle.node().unwrap().counters().hand_outs.get() > hand_outs).await;
        drop(waiting); // it has never taken what it got
        until("it was given back", async || {
            place.one::<bool>("SELECT NOT held FROM bugle.group_cursor ORDER BY ver DESC LIMIT 1").await
        })
        .await;
        let popped = place.pop(9).await;
        assert_eq!((payloads(&popped.messages), popped.messages[0].tries), (vec![round], 0));
        place.settle(&popped, Verdict::Ack).await;
    }
}

#[tokio::test]
async fn a_deadline_answers_none() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let none = bugle.broker().pop_within(&any(1), Duration::from_millis(50)).await.unwrap();
    assert!(none.is_none());
    until("nobody waits", async || bugle.node().unwrap().status().intentions == 0).await;
}

#[tokio::test]
async fn whoever_waits_for_a_queue_that_is_not_there_gets_its_first_message() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let waiter = wait(&bugle, Pop::new("later").unwrap().partition("p").unwrap());
    place.asleep(&bugle, 1).await;
    place.broker.push(vec![crate::fixture::message("later", "o", 1)]).await.unwrap();
    place.broker.push(vec![crate::fixture::message("later", "p", 2)]).await.unwrap();
    assert_eq!(payloads(&answer(waiter).await.messages), [2]);
}

#[tokio::test]
async fn a_lost_session_loses_no_message() {
    let place = Place::new().await;
    let bugle = place.node().await;
    let waiter = wait(&bugle, any(1));
    place.asleep(&bugle, 1).await;
    let end = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = $1 AND position('look_messages' in query) > 0";
    let name = format!("{} node", place.db.name());
    let ended: i64 = sqlx::query_scalar(end).bind(&name).fetch_one(place.db.pool()).await.unwrap();
    assert_eq!(ended, 1, "the session that looks are made on");
    place.push("a", [1]).await;
    assert_eq!(payloads(&answer(waiter).await.messages), [1]);
}
