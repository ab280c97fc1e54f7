//! Pushing messages.
use crate::fixture::Site;
use serde_json::{Value, json};
use uuid::Uuid;

const PUSH: &str = "/api/v1/push";

#[tokio::test]
async fn messages_are_answered_in_their_order_with_queens_fields() {
    let site = Site::new().await;
    let trace = "0198a5b4-0000-7000-8000-000000000001";
    let answer = site
        .post(
            PUSH,
            json!({"items": [
                {"queue": "q", "partition": "p", "payload": {"n": 1}, "transactionId": "t", "traceId": trace},
                {"queue": "q", "partition": "p", "payload": 2, "transactionId": "t", "bufferMs": 9},
                {"queue": "q"},
            ]}),
        )
        .await;
    assert_eq!(answer.status.as_u16(), 201);
    let [first, twin, plain] = &answer.list()[..] else { panic!("{answer:?}") };
    let id = |value: &Value| value.as_str().unwrap().parse::<Uuid>().unwrap();
    assert_eq!(
        first,
        &json!({
            "index": 0, "status": "queued", "message_id": first["message_id"], "transaction_id": "t",
            "partition_id": first["partition_id"], "trace_id": trace, "queueName": "q",
        })
    );
    id(&first["partition_id"]);
    assert_eq!(
        twin,
        &json!({
            "index": 1, "status": "duplicate", "message_id": first["message_id"], "transaction_id": "t", "queueName": "q",
        })
    );
    assert_eq!(plain["transaction_id"], plain["message_id"], "one without an id has its own");
    assert_eq!(plain["trace_id"], Value::Null);
    assert_ne!(id(&first["message_id"]), id(&plain["message_id"]));
}

#[tokio::test]
async fn payloads_come_back_as_they_were_sent() {
    let site = Site::new().await;
    let sent = r#"{"b": 1.50, "a": [1e400, "\u0000\ud800", null], "big": 12345678901234567890123}"#;
    let answer = site.post_raw(PUSH, format!(r#"{{"items": [{{"queue": "q", "payload": {sent}}}]}}"#)).await;
    assert_eq!(answer.status.as_u16(), 201, "{answer:?}");
    let response = site.http.get(site.path("/api/v1/pop/queue/q")).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.contains(&format!(r#""data":{sent},"#)), "{text}");
}

#[tokio::test]
async fn one_bad_item_fails_alone() {
    let site = Site::new().await;
    let long = "é".repeat(128);
    let answer = site
        .post(
            PUSH,
            json!({"items": [
                {"queue": "q", "payload": 1},
                {"queue": long},
                {"queue": "q", "payload": 2, "traceId": "no uuid"},
                {"queue": "q", "partition": ""},
                {"queue": "q", "transactionId": "a\u{0}b"},
                {"queue": "q", "payload": "x".repeat(1_048_577)},
                {"queue": "q", "payload": 3},
            ]}),
        )
        .await;
    assert_eq!(answer.status.as_u16(), 201);
    let list = answer.list();
    let status: Vec<_> = list.iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["queued", "failed", "failed", "failed", "failed", "failed", "queued"]);
    let error = |place: usize| list[place]["error"].as_str().unwrap();
    assert!(error(1).starts_with("items[1]: queue name is 256 bytes long"), "{}", error(1));
    assert!(error(2).contains("traceId \"no uuid\" is no UUID"), "{}", error(2));
    assert!(error(3).contains("partition name is empty"), "{}", error(3));
    assert!(error(4).contains("control character"), "{}", error(4));
    assert!(error(5).contains("over the limit of 1048576"), "{}", error(5));
    assert_eq!(site.pop("batch=10").await.payloads(), [1, 3]);
}

#[tokio::test]
async fn when_no_item_can_be_pushed_the_first_error_is_the_answer() {
    let site = Site::new().await;
    let answer = site.post(PUSH, json!({"items": [{"queue": ""}, {"queue": "\n"}]})).await;
    assert!(answer.error(400).starts_with("items[0]: queue name is empty"), "{answer:?}");
    site.execute("SELECT bugle.enqueue('jobs', 'k', '{}')").await;
    let answer = site.post(PUSH, json!({"items": [{"queue": "jobs"}]})).await;
    assert!(answer.error(409).contains("jobs"), "{answer:?}");
}

#[tokio::test]
async fn an_empty_push_is_accepted_and_a_shapeless_one_is_not() {
    let site = Site::new().await;
    let empty = site.post(PUSH, json!({"items": []})).await;
    assert_eq!((empty.status.as_u16(), empty.json), (201, json!([])));
    for body in [json!({}), json!({"items": null})] {
        assert_eq!(site.post(PUSH, body).await.error(400), "items array is required");
    }
    let wrong = site.post(PUSH, json!({"items": [{"queue": "q"}, {"queue": 5}]})).await;
    assert!(wrong.error(400).starts_with("items[1].queue: invalid type"), "{wrong:?}");
    let wrong = site.post(PUSH, json!({"items": [{"payload": 5}]})).await;
    assert!(wrong.error(400).starts_with("items[0]: missing field `queue`"), "{wrong:?}");
}
