//! What a pop promises.
use crate::fixture::{Place, any, payloads};
use bugle::broker::{Pop, Start, Verdict};
use futures_util::future::join_all;
use std::collections::HashSet;
use std::time::Duration;

#[tokio::test]
async fn a_pop_brings_messages_of_one_partition_in_their_order() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    place.push("b", [4]).await;
    let first = place.pop(2).await;
    assert_eq!(payloads(&first.messages), [1, 2]);
    assert_eq!(payloads(&place.pop(9).await.messages), [4], "a is leased");
    assert!(place.is_empty("__QUEUE_MODE__").await);
    place.settle(&first, Verdict::Ack).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [3]);
}

#[tokio::test]
async fn every_group_gets_every_message() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    for group in ["x", "y"] {
        let popped = place.broker.pop(&any(9).group(group).unwrap()).await.unwrap().unwrap();
        assert_eq!(payloads(&popped.messages), [1, 2]);
        assert_eq!(popped.group.as_str(), group);
    }
}

#[tokio::test]
async fn one_lease_may_span_several_partitions() {
    let place = Place::new().await;
    for (partition, payload) in [("a", 1), ("b", 2), ("c", 3)] {
        place.push(partition, [payload, payload + 10]).await;
    }
    let popped = place.broker.pop(&any(3).partitions(2).unwrap()).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [1, 11, 2], "three in all, of two partitions");
    assert_eq!(popped.partitions().len(), 2);
    let tokens = "SELECT count(DISTINCT token) FROM bugle.group_cursor";
    assert_eq!(place.one::<i64>(tokens).await, 1);
    assert_eq!(payloads(&place.pop(9).await.messages), [3, 13]);
    place.settle(&popped, Verdict::Ack).await;
    assert_eq!(payloads(&place.pop(9).await.messages), [12], "what did not fit was not claimed");
}

#[tokio::test]
async fn an_acked_claim_leaves_no_lease() {
    let place = Place::new().await;
    place.push("a", [1, 2, 3]).await;
    let pop = any(2).auto_ack(true);
    let popped = place.broker.pop(&pop).await.unwrap().unwrap();
    assert!(popped.auto_ack && popped.messages[0].until.is_none());
    assert_eq!(payloads(&popped.messages), [1, 2]);
    assert_eq!(payloads(&place.broker.pop(&pop).await.unwrap().unwrap().messages), [3]);
    assert!(place.broker.pop(&pop).await.unwrap().is_none());
}

#[tokio::test]
async fn an_acked_claim_that_reached_nobody_comes_again() {
    let place = Place::new().await;
    place.push("a", [1, 2]).await;
    let pop = any(1).auto_ack(true);
    let popped = place.broker.pop(&pop).await.unwrap().unwrap();
    place.broker.release(&popped).await.unwrap();
    let again = place.broker.pop(&pop).await.unwrap().unwrap();
    assert_eq!(payloads(&again.messages), [1]);
    place.broker.pop(&pop).await.unwrap().unwrap();
    place.broker.release(&again).await.unwrap();
    assert!(
        place.broker.pop(&pop).await.unwrap().is_none(),
        "somebody has claimed since: it does not go back"
    );
}

#[tokio::test]
async fn a_new_group_begins_where_it_is_told_to() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    let between = place.one("SELECT clock_timestamp()").await;
    place.push("a", [2]).await;
    let pop = |group: &str, start| any(9).group(group).unwrap().start(start);
    for (group, start) in [("new", Start::New), ("from", Start::From(between)), ("all", Start::All)] {
        let popped = place.broker.pop(&pop(group, start)).await.unwrap();
        let got = popped.map(|popped| payloads(&popped.messages));
        let expected = match group {
            "new" => None,
            "from" => Some(vec![2]),
            _ => Some(vec![1, 2]),
        };
        assert_eq!(got, expected, "{group}");
    }
    place.push("a", [3]).await;
    let popped = place.broker.pop(&pop("new", Start::All)).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [3], "it counts for a new group alone");
}

#[tokio::test]
async fn a_pop_of_one_partition_gets_no_other() {
    let place = Place::new().await;
    place.push("a", [1]).await;
    place.push("b", [2]).await;
    let only = |name: &str| Pop::new("q").unwrap().partition(name).unwrap();
    let popped = place.broker.pop(&only("b")).await.unwrap().unwrap();
    assert_eq!(payloads(&popped.messages), [2]);
    assert!(place.broker.pop(&only("b")).await.unwrap().is_none());
    assert!(place.broker.pop(&only("c")).await.unwrap().is_none());
    assert!(place.broker.pop(&Pop::new("nowhere").unwrap()).await.unwrap().is_none());
    let made = "SELECT (SELECT count(*) FROM bugle.partition) + (SELECT count(*) FROM bugle.queue)";
    assert_eq!(place.one::<i64>(made).await, 3, "whoever does not wait makes nothing");
}

#[tokio::test]
async fn partitions_take_turns() {
    let place = Place::new().await;
    for partition in ["a", "b", "c"] {
        place.push(partition, [1, 2, 3]).await;
    }
    let mut served = Vec::new();
    for _ in 0..6 {
        let popped = place.pop(1).await;
        served.push(popped.messages[0].partition_name.to_string());
        place.settle(&popped, Verdict::Ack).await;
    }
    served[..3].sort();
    served[3..].sort();
    assert_eq!(served, ["a", "b", "c", "a", "b", "c"]);
}

#[tokio::test]
async fn a_lease_is_as_long_as_the_pop_or_the_queue_says() {
    let place = Place::new().await;
    place.option("lease_seconds = 77").await;
    let left = "SELECT round(extract(epoch FROM until - clock_timestamp()))::int FROM bugle.group_cursor ORDER BY part DESC LIMIT 1";
    place.push("a", [1]).await;
    place.pop(1).await;
    assert_eq!(place.one::<i32>(left).await, 77);
    place.push("b", [1]).await;
    let own = any(1).lease(Duration::from_secs(500)).unwrap();
    place.broker.pop(&own).await.unwrap().unwrap();
    assert_eq!(place.one::<i32>(left).await, 500);
    place.option("lease_seconds = NULL").await;
    place.push("c", [1]).await;
    place.pop(1).await;
    assert_eq!(place.one::<i32>(left).await, 300);
}

#[tokio::test]
async fn a_pop_whose_values_make_no_sense_is_refused() {
    assert!(Pop::new("").is_err());
    assert!(any(1).most(0).is_err());
    assert!(any(1).partitions(0).is_err());
    assert!(any(1).group("").is_err());
    assert!(any(1).lease(Duration::ZERO).is_err());
}

#[tokio::test]
async fn pops_that_do_not_wait_and_come_together_share_a_look_and_each_gets_its_own_lease() {
    let place = Place::new().await;
    for partition in 0..20 {
        place.push(&format!("p{partition}"), [partition]).await;
    }
    place.broker.release(&place.pop(1).await).await.unwrap(); // the names are known then
    let before = place.looks().await;
    let (broker, pop) = (&place.broker, any(1));
    let popped = join_all((0..20).map(|_| broker.pop(&pop))).await;
    let popped: Vec<_> =
        popped.into_iter().map(|popped| popped.unwrap().expect("there was one for each")).collect();
    assert_eq!(place.looks().await - before, 1);
    let tokens: HashSet<_> = popped.iter().map(|popped| popped.token).collect();
    let partitions: HashSet<_> = popped.iter().map(|popped| popped.messages[0].partition).collect();
    assert_eq!((tokens.len(), partitions.len()), (20, 20));
    assert!(broker.pop(&pop).await.unwrap().is_none(), "all of them are leased");
}
