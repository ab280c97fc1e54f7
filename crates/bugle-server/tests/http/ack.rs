//! Settling messages, and keeping leases.
use crate::fixture::Site;
use serde_json::{Value, json};

const ACK: &str = "/api/v1/ack";
const BATCH: &str = "/api/v1/ack/batch";

#[tokio::test]
async fn an_ack_is_answered_with_queens_fields_and_frees_the_partition_with_the_last() {
    let site = Site::new().await;
    site.push("p", [1, 2, 3]).await;
    let popped = site.pop("batch=2").await;
    let first = site.post(ACK, popped.ack(0, "completed")).await;
    assert_eq!(
        first.json,
        json!([{
            "index": 0, "transactionId": "1", "success": true, "error": null, "queueName": "q", "partitionName": "p",
            "leaseReleased": false, "dlq": false,
        }])
    );
    assert_eq!(site.pop("").await.status.as_u16(), 204);
    let last = site.post(ACK, popped.ack(1, "success")).await;
    assert_eq!(last.json[0]["leaseReleased"], true);
    assert_eq!(site.pop("").await.payloads(), [3]);
}

#[tokio::test]
async fn nulls_mean_the_default_and_a_lease_may_be_left_out() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let mut ack = site.pop("").await.ack(0, "completed");
    for field in ["leaseId", "status", "consumerGroup", "error"] {
        ack[field] = Value::Null;
    }
    assert_eq!(site.post(ACK, ack).await.json[0]["success"], true);
    assert_eq!(site.pop("").await.status.as_u16(), 204);
}

#[tokio::test]
async fn a_message_that_fails_comes_again_and_then_is_dead_with_the_clients_words() {
    let site = Site::new().await;
    site.execute("SELECT bugle.configure_queue('q', '{\"retry_limit\": 1}')").await;
    site.push("p", [1]).await;
    let failed = |popped: crate::fixture::Answer| {
        let mut ack = popped.ack(0, "failed");
        ack["error"] = json!("the oven is cold");
        ack
    };
    let again = site.post(ACK, failed(site.pop("").await)).await;
    assert_eq!(
        (&again.json[0]["success"], &again.json[0]["dlq"], &again.json[0]["leaseReleased"]),
        (&json!(true), &json!(false), &json!(true))
    );
    let popped = site.pop("").await;
    assert_eq!(popped.json["messages"][0]["retryCount"], 1);
    let dead = site.post(ACK, failed(popped)).await;
    assert_eq!((&dead.json[0]["success"], &dead.json[0]["dlq"]), (&json!(true), &json!(true)));
    assert_eq!(site.one::<String>("SELECT error FROM bugle.dead_message").await, "the oven is cold");
    assert_eq!(site.pop("").await.status.as_u16(), 204);
}

#[tokio::test]
async fn acks_in_a_batch_are_answered_in_their_order_and_a_bad_one_fails_alone() {
    let site = Site::new().await;
    site.push("p", [1, 2, 3, 4]).await;
    let popped = site.pop("batch=4&consumerGroup=g").await;
    let changed = |place: usize, field: &str, value: Value| {
        let mut ack = popped.ack(place, "completed");
        ack[field] = value;
        ack
    };
    let acks = [
        popped.ack(1, "dlq"),
        changed(0, "partitionId", json!("no uuid")),
        changed(0, "leaseId", json!("no uuid")),
        changed(0, "leaseId", json!("0198a5b4-0000-7000-8000-000000000001")),
        changed(0, "transactionId", json!("nobody")),
        changed(0, "status", json!("perhaps")),
        popped.ack(3, "completed"),
    ];
    let answer = site.post(BATCH, json!({"acknowledgments": acks, "consumerGroup": "g"})).await;
    let success: Vec<_> = answer.list().iter().map(|item| item["success"].as_bool().unwrap()).collect();
    assert_eq!(success, [true, false, false, false, false, false, true], "{answer:?}");
    let errors: Vec<_> = answer.list().iter().map(|item| item["error"].as_str().unwrap_or("-")).collect();
    assert!(errors[1].contains("partitionId \"no uuid\" is no UUID"), "{errors:?}");
    assert_eq!((errors[2], errors[3]), ("Invalid or expired lease", "Invalid or expired lease"));
    assert_eq!(errors[4], "Message not found");
    assert!(errors[5].contains("Unknown status \"perhaps\""), "{errors:?}");
    assert_eq!((&answer.json[0]["dlq"], &answer.json[6]["leaseReleased"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_place() {
    let site = Site::new().await;
    assert_eq!(site.post(ACK, json!({"partitionId": "x"})).await.error(400), "transactionId is required");
    assert!(
        site.post(ACK, json!({"transactionId": "x"})).await.error(400).starts_with("partitionId is required")
    );
    assert_eq!(site.post(BATCH, json!({})).await.error(400), "acknowledgments array is required");
    let acks =
        json!({"acknowledgments": [{"transactionId": "a", "partitionId": "b"}, {"transactionId": "a"}]});
    assert!(
        site.post(BATCH, acks).await.error(400).starts_with("acknowledgments[1]: partitionId is required")
    );
    let empty = site.post(BATCH, json!({"acknowledgments": []})).await;
    assert_eq!((empty.status.as_u16(), empty.json), (200, json!([])));
}

#[tokio::test]
async fn a_lease_is_extended_and_a_lost_one_is_not() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let popped = site.pop("").await;
    let lease = popped.json["leaseId"].as_str().unwrap();
    let extend = format!("/api/v1/lease/{lease}/extend");
    let before: chrono::DateTime<chrono::Utc> =
        site.one("SELECT until FROM bugle.group_cursor WHERE held").await;
    let answer = site.post(&extend, json!({"seconds": 3600})).await;
    let until = answer.json["expiresAt"].as_str().unwrap();
    assert_eq!(
        answer.json,
        json!({"leaseId": lease, "success": true, "error": null, "expiresAt": until, "newExpiresAt": until})
    );
    assert!(until.parse::<chrono::DateTime<chrono::Utc>>().unwrap() > before);
    let shorter = site.post_raw(&extend, "").await;
    assert_eq!(shorter.json["expiresAt"], until, "one that ends later anyway is left as it is");
    site.execute("UPDATE bugle.group_cursor SET until = clock_timestamp() WHERE held").await;
    assert_eq!(site.post(&extend, json!({})).await.json["error"], "Lease already expired");
    site.post(ACK, popped.ack(0, "completed")).await;
    for lease in [lease, "no-uuid", "0198a5b4-0000-7000-8000-000000000001"] {
        let answer = site.post(&format!("/api/v1/lease/{lease}/extend"), json!({})).await;
        assert_eq!((answer.status.as_u16(), &answer.json["success"]), (200, &json!(false)), "{answer:?}");
        assert_eq!(answer.json["error"], "Lease not found");
    }
    assert!(site.post(&extend, json!({"seconds": 86_401})).await.error(400).contains("use 1 to 86400"));
    assert!(site.post(&extend, json!({"seconds": -1})).await.error(400).contains("seconds"));
}
