//! Bad input: a clear 4xx.
use crate::fixture::Site;
use bugle_server::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, JSON_DEPTH_MAX};
use serde_json::json;

const PUSH: &str = "/api/v1/push";

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let site = Site::new().await;
    assert_eq!(site.post_raw(PUSH, "").await.error(400), "Empty request body");
    for body in [&b"{"[..], b"items", b"{\"items\": [{\"queue\": \"\xff\"}]}", b"{\"items\": []} x", b"\x00"]
    {
        let answer = site.post_raw(PUSH, body.to_vec()).await;
        assert!(answer.error(400).starts_with("Invalid JSON: "), "{answer:?}");
    }
    let deep = |depth: usize| {
        let payload = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"items": [{{"queue": "q", "payload": {payload}}}]}}"#)
    };
    let answer = site.post_raw(PUSH, deep(JSON_DEPTH_MAX - 3)).await;
    assert_eq!(answer.status.as_u16(), 201, "{answer:?}");
    let answer = site.post_raw(PUSH, deep(100_000)).await;
    assert!(answer.error(400).contains("nested deeper than 128"), "{answer:?}");
}

#[tokio::test]
async fn a_body_or_a_batch_that_is_too_large_is_refused() {
    let site = Site::new().await;
    let answer = site.post_raw(PUSH, vec![b' '; BODY_BYTES_MAX + 1]).await;
    assert!(answer.error(413).contains("larger than 16777216 bytes"), "{answer:?}");
    let items = vec![json!({"queue": "q"}); 10_001];
    let answer = site.post(PUSH, json!({ "items": items })).await;
    assert!(answer.error(400).contains("items are 10001, over the limit of 10000"), "{answer:?}");
    let acks = vec![json!({"transactionId": "t", "partitionId": "p"}); 10_001];
    let answer = site.post("/api/v1/ack/batch", json!({ "acknowledgments": acks })).await;
    assert!(answer.error(400).contains("over the limit of 10000"), "{answer:?}");
    let operations = json!([{"type": "push", "items": vec![json!({"queue": "q"}); 10_001]}]);
    let answer = site.post("/api/v1/transaction", json!({ "operations": operations })).await;
    assert!(answer.error(400).contains("operations are more than 10000"), "{answer:?}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let site = Site::new().await;
    let with = async |bytes: usize| {
        let answer = site.http.get(site.path("/livez")).header("x-long", "x".repeat(bytes)).send().await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(with(HEAD_BYTES_MAX / 2).await, 200);
    assert_eq!(with(HEAD_BYTES_MAX).await, 431);
}

#[tokio::test]
async fn numbers_and_switches_out_of_range_are_refused_by_name() {
    let site = Site::new().await;
    for (query, named) in [
        ("batch=0", "number of messages to pop is 0"),
        ("batch=10001", "not 1 to 10000"),
        ("batch=-1", "batch"),
        ("batch=99999999999999999999", "batch"),
        ("batch=ten", "batch"),
        ("partitions=0", "number of partitions to pop from is 0"),
        ("partitions=1001", "not 1 to 1000"),
        ("wait=true&timeout=86400001", "timeout is 86400001; use 0 to 86400000"),
        ("timeout=18446744073709551616", "timeout"),
        ("wait=perhaps", "\"perhaps\" is neither true nor false"),
        ("consumerGroup=%00", "group name"),
    ] {
        let answer = site.pop(query).await;
        assert!(answer.error(400).contains(named), "{query}: {answer:?}");
    }
    let long = "g".repeat(256);
    assert!(site.pop(&format!("consumerGroup={long}")).await.error(400).contains("256 bytes long"));
    assert!(site.get(&format!("/api/v1/pop/queue/{long}")).await.error(400).contains("256 bytes long"));
    assert!(site.get("/api/v1/pop?wait=true").await.error(400).contains("neither namespace nor task"));
}
