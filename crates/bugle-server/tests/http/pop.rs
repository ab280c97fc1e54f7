//! Popping messages.
use crate::fixture::{Answer, SOON, Site};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A pop that waits, sent by a task of its own.
pub(crate) fn wait(site: &Site, path: &str) -> JoinHandle<Answer> {
    let request = site.http.get(site.path(path));
    tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await })
}

async fn answered(waiter: JoinHandle<Answer>) -> Answer {
    tokio::time::timeout(SOON, waiter).await.expect("not answered").unwrap()
}

#[tokio::test]
async fn messages_are_answered_with_queens_fields() {
    let site = Site::new().await;
    site.push("p", [1, 2]).await;
    let popped = site.pop("batch=10&consumerGroup=g").await;
    let message = &popped.json["messages"][0];
    assert_eq!(
        popped.json,
        json!({
            "success": true, "queue": "q", "partition": "p", "partitionId": message["partitionId"], "leaseId": message["leaseId"],
            "consumerGroup": "g", "partitionsClaimed": 1, "messages": popped.json["messages"],
        })
    );
    assert_eq!(
        message,
        &json!({
            "id": message["id"], "transactionId": "1", "traceId": null, "data": 1, "producerSub": null, "createdAt": message["createdAt"],
            "partitionId": message["partitionId"], "partition": "p", "leaseId": message["leaseId"], "consumerGroup": "g", "retryCount": 0,
        })
    );
    let at = message["createdAt"].as_str().unwrap();
    assert_eq!((at.len(), at.as_bytes()[19], at.as_bytes()[26]), (27, b'.', b'Z'), "{at}: microseconds");
    assert_eq!(popped.payloads(), [1, 2]);
}

#[tokio::test]
async fn nothing_is_204_without_a_body() {
    let site = Site::new().await;
    for path in [
        "/api/v1/pop/queue/none",
        "/api/v1/pop/queue/none/partition/p",
        "/api/v1/pop?namespace=none&wait=true&timeout=1",
    ] {
        let nothing = site.get(path).await;
        assert_eq!((nothing.status.as_u16(), nothing.json), (204, Value::Null), "{path}");
    }
    site.push("p", [1]).await;
    assert_eq!(site.pop("").await.payloads(), [1]);
    assert_eq!(site.pop("").await.status.as_u16(), 204, "its partition is leased");
}

#[tokio::test]
async fn auto_ack_leaves_no_lease() {
    let site = Site::new().await;
    site.push("p", [1, 2]).await;
    let popped = site.pop("autoAck=true").await;
    assert_eq!(popped.payloads(), [1]);
    assert_eq!((&popped.json["leaseId"], &popped.json["messages"][0]["leaseId"]), (&json!(""), &json!("")));
    assert_eq!(site.pop("autoAck=1").await.payloads(), [2]);
    assert_eq!(site.pop("").await.status.as_u16(), 204);
}

#[tokio::test]
async fn one_lease_may_cover_several_partitions() {
    let site = Site::new().await;
    site.push("a", [1, 2]).await;
    site.push("b", [3]).await;
    site.push("c", [4]).await;
    let popped = site.pop("batch=10&partitions=2").await;
    assert_eq!(popped.json["partitionsClaimed"], 2);
    let leases: Vec<_> = popped.json["messages"].as_array().unwrap().iter().map(|m| &m["leaseId"]).collect();
    assert!(leases.iter().all(|lease| **lease == popped.json["leaseId"]), "{popped:?}");
}

#[tokio::test]
async fn a_group_begins_where_it_was_told_to() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    assert_eq!(site.pop("consumerGroup=n&subscriptionMode=new").await.status.as_u16(), 204);
    assert_eq!(site.pop("consumerGroup=w&subscriptionFrom=now").await.status.as_u16(), 204);
    assert_eq!(site.pop("consumerGroup=o&subscriptionMode=new-only").await.status.as_u16(), 204);
    assert_eq!(site.pop("consumerGroup=a&subscriptionMode=from_beginning").await.payloads(), [1]);
    assert_eq!(
        site.pop("consumerGroup=t&subscriptionFrom=2020-01-01T00:00:00.000Z&subscriptionMode=new")
            .await
            .payloads(),
        [1]
    );
    site.push("p", [2]).await;
    for group in ["n", "w", "o"] {
        assert_eq!(site.pop(&format!("consumerGroup={group}&batch=9")).await.payloads(), [2], "{group}");
    }
    let wrong = site.pop("consumerGroup=x&subscriptionFrom=yesterday").await;
    assert!(wrong.error(400).contains("\"yesterday\" is no time"), "{wrong:?}");
}

#[tokio::test]
async fn a_push_wakes_a_pop_that_waits_for_a_queue_that_is_not_there() {
    let site = Site::new().await;
    let waiter = wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000");
    site.waiting(1).await;
    site.push("p", [7]).await;
    assert_eq!(answered(waiter).await.payloads(), [7]);
}

#[tokio::test]
async fn pops_wait_for_one_partition_and_by_tags() {
    let site = Site::new().await;
    let bound = wait(&site, "/api/v1/pop/queue/q/partition/b?wait=true&timeout=3600000");
    let tagged = wait(&site, "/api/v1/pop?namespace=shop&task=mail&wait=true&timeout=3600000");
    site.waiting(1).await; // the tagged one waits for queues, of which there are none
    site.push("a", [1]).await;
    site.push("b", [2]).await;
    assert_eq!(answered(bound).await.payloads(), [2]);
    let push = site.post("/api/v1/push", json!({"items": [{"queue": "shop.mail", "payload": 3}]})).await;
    assert_eq!(push.status.as_u16(), 201);
    let popped = answered(tagged).await;
    assert_eq!((popped.payloads(), &popped.json["queue"]), (vec![3], &json!("shop.mail")));
}

#[tokio::test]
async fn a_hundred_wait_and_one_message_goes_to_one_of_them() {
    let site = Site::new().await;
    let waiters: Vec<_> =
        (0..100).map(|_| wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000")).collect();
    site.waiting(100).await;
    site.push("p", [1]).await;
    site.waiting(99).await;
    crate::fixture::until("one is answered", async || waiters.iter().any(JoinHandle::is_finished)).await;
    let (done, waiting): (Vec<_>, Vec<_>) = waiters.into_iter().partition(JoinHandle::is_finished);
    assert_eq!((done.len(), waiting.len()), (1, 99));
    for waiter in done {
        assert_eq!(answered(waiter).await.payloads(), [1]);
    }
    waiting.iter().for_each(JoinHandle::abort);
    site.waiting(0).await;
}

#[tokio::test]
async fn more_than_may_wait_are_told_when_to_come_again() {
    let wake = bugle::wake_engine::Options { intentions_max: 1, ..bugle::wake_engine::Options::default() };
    let site = Site::with(wake).await;
    let first = wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000");
    site.waiting(1).await;
    let second = site.get("/api/v1/pop/queue/q?wait=true&timeout=3600000").await;
    assert!(second.error(503).contains("1 consumers wait already"), "{second:?}");
    assert_eq!(second.retry_after.as_deref(), Some("1"));
    site.push("p", [1]).await;
    assert_eq!(answered(first).await.payloads(), [1]);
}

#[tokio::test]
async fn names_in_paths_are_decoded() {
    let site = Site::new().await;
    let (queue, partition) = ("a b/ü?", "50% &c");
    let items = json!({"items": [{"queue": queue, "partition": partition, "payload": 1}]});
    assert_eq!(site.post("/api/v1/push", items).await.status.as_u16(), 201);
    let popped = site.get("/api/v1/pop/queue/a%20b%2F%C3%BC%3F/partition/50%25%20%26c").await;
    assert_eq!((popped.payloads(), &popped.json["queue"]), (vec![1], &json!(queue)));
    assert_eq!(site.get("/api/v1/pop/queue/%FF").await.status.as_u16(), 400, "no UTF-8");
    assert!(site.get("/api/v1/pop/queue/a%00b").await.error(400).contains("control character"));
}

#[tokio::test]
async fn a_head_takes_nothing() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let head = site.send(reqwest::Method::HEAD, "/api/v1/pop/queue/q?autoAck=true", None).await;
    assert_eq!(head.status.as_u16(), 405);
    assert_eq!(site.pop("").await.payloads(), [1]);
}
