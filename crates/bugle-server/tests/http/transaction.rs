//! Pushes and acks together.
use crate::fixture::Site;
use serde_json::{Value, json};

const TRANSACTION: &str = "/api/v1/transaction";

fn ack(popped: &crate::fixture::Answer) -> Value {
    let mut ack = popped.ack(0, "completed");
    ack["type"] = json!("ack");
    ack
}

#[tokio::test]
async fn a_push_and_an_ack_happen_together() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let popped = site.pop("").await;
    let push = json!({"type": "push", "items": [
        {"queue": "next", "payload": {"deep": [1]}, "transactionId": "o-1"}, {"queue": "next", "payload": 2},
    ]});
    let done = site
        .post(
            TRANSACTION,
            json!({
                "operations": [push, ack(&popped)], "requiredLeases": [popped.json["leaseId"]],
            }),
        )
        .await;
    assert_eq!((done.status.as_u16(), &done.json["success"]), (200, &json!(true)), "{done:?}");
    let results = &done.json["results"];
    assert_eq!(
        results[0],
        json!({
            "index": 0, "type": "push", "success": true, "queueName": "next", "partitionId": results[0]["partitionId"],
            "messageId": results[0]["messageId"], "transactionId": "o-1",
        })
    );
    assert_eq!(results[1]["transactionId"], results[1]["messageId"]);
    assert_eq!(
        results[2],
        json!({"index": 2, "type": "ack", "success": true, "transactionId": "1", "error": null, "dlq": false})
    );
    let next = site.get("/api/v1/pop/queue/next?batch=9").await;
    assert_eq!(next.json["messages"][0]["data"], json!({"deep": [1]}));
    assert_eq!(site.pop("").await.status.as_u16(), 204);
}

#[tokio::test]
async fn one_fault_and_nothing_is_done() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let popped = site.pop("").await;
    let push = json!({"type": "push", "items": [{"queue": "next", "payload": 1, "transactionId": "o"}]});
    let mut lost = ack(&popped);
    lost["leaseId"] = json!("0198a5b4-0000-7000-8000-000000000001");
    let mut missing = ack(&popped);
    missing["transactionId"] = json!("nobody");
    let other = "0198a5b4-0000-7000-8000-000000000001";
    for (operations, required, why) in [
        (
            json!([push, lost]),
            json!([]),
            "operations[1] (ack): Invalid or expired lease of transactionId \"1\"; pop again",
        ),
        (
            json!([push, missing]),
            json!([]),
            "operations[1] (ack): Message not found: transactionId \"nobody\" is not in the lease",
        ),
        (
            json!([push, push]),
            json!([]),
            "operations[1].items[0] (push): transactionId \"o\" is in queue \"next\" already; leave it out",
        ),
        (
            json!([push, ack(&popped)]),
            json!([other]),
            "requiredLeases: lease 0198a5b4-0000-7000-8000-000000000001 is not held any more; pop again",
        ),
        (json!([push, ack(&popped)]), json!(["no uuid"]), "requiredLeases[0]: \"no uuid\" is no lease"),
    ] {
        let body = json!({"operations": operations, "requiredLeases": required});
        let answer = site.post(TRANSACTION, body).await;
        assert_eq!((answer.status.as_u16(), &answer.json["success"]), (200, &json!(false)), "{answer:?}");
        assert!(answer.json["transactionId"].is_string(), "{answer:?}");
        assert!(answer.json["error"].as_str().unwrap().starts_with(why), "{answer:?}");
    }
    assert_eq!(site.get("/api/v1/pop/queue/next").await.status.as_u16(), 204);
    assert_eq!(
        site.post("/api/v1/ack", popped.ack(0, "completed")).await.json[0]["success"],
        true,
        "still leased"
    );
}

#[tokio::test]
async fn what_is_wrong_is_named_with_its_place() {
    let site = Site::new().await;
    let error = async |operations: Value| {
        let answer = site.post(TRANSACTION, json!({ "operations": operations })).await;
        answer.error(400).to_owned()
    };
    assert_eq!(site.post(TRANSACTION, json!({})).await.error(400), "operations array required");
    assert_eq!(error(json!([])).await, "operations array cannot be empty");
    assert!(error(json!([{"type": "dance"}])).await.starts_with("operations[0]: type is \"dance\""));
    assert_eq!(error(json!([{"type": "push"}])).await, "operations[0]: items array is required");
    let push = json!({"type": "push", "items": [{"queue": "q"}, {"queue": ""}]});
    assert!(error(json!([push])).await.starts_with("operations[0]: items[1]: queue name is empty"));
    assert_eq!(
        error(json!([{"type": "ack", "partitionId": "p"}])).await,
        "operations[0]: transactionId is required"
    );
    assert_eq!(site.get("/api/v1/pop/queue/q").await.status.as_u16(), 204);
}

#[tokio::test]
async fn what_has_failed_in_a_transaction_is_dead_at_once() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let mut ack = ack(&site.pop("").await);
    ack["status"] = json!("failed");
    let done = site.post(TRANSACTION, json!({ "operations": [ack] })).await;
    assert_eq!(done.json["results"][0]["dlq"], true, "{done:?}");
}
