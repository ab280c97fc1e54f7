//! The operator's routes.
use crate::fixture::{Answer, Site};
use serde_json::{Value, json};

const QUEUE: &str = "/api/v1/resources/queues/q";

/// A dead letter of the message `n`.
async fn bury(site: &Site, n: i64) -> Answer {
    site.push("p", [n]).await;
    let popped = site.pop("").await;
    let mut ack = popped.ack(0, "dlq");
    ack["error"] = json!("no such street");
    assert_eq!(site.post("/api/v1/ack", ack).await.json[0]["dlq"], true);
    popped
}

#[tokio::test]
async fn a_queue_is_told_its_options_and_answers_with_what_holds() {
    let site = Site::new().await;
    let answer = site
        .post("/api/v1/configure", json!({
            "queue": "shop.mail", "options": {"leaseTime": 60, "retryLimit": 0, "encryptionEnabled": false, "maxSize": 0},
        }))
        .await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    assert_eq!(
        answer.json,
        json!({
            "configured": true, "queueId": answer.json["queueId"], "partitionId": answer.json["partitionId"], "queue": "shop.mail",
            "namespace": "shop", "task": "mail",
            "options": {
                "leaseTime": 60, "retryLimit": 0, "retryDelay": 0, "priority": 0, "maxSize": 0, "ttl": 0, "delayedProcessing": 0,
                "windowBuffer": 0, "retentionEnabled": false, "retentionSeconds": 0, "completedRetentionSeconds": 0,
                "encryptionEnabled": false, "deadLetterQueue": true, "dlqAfterMaxRetries": true, "maxWaitTimeSeconds": 0,
            },
        })
    );
    assert!(answer.json["partitionId"].is_string());
    let told: (Option<i32>, Option<i32>) =
        sqlx::query_as(site.db.sql("SELECT lease_seconds, ttl_seconds FROM bugle.message_queue").unwrap())
            .fetch_one(site.db.pool())
            .await
            .unwrap();
    assert_eq!(told, (Some(60), None), "what was not sent is not told");
}

#[tokio::test]
async fn options_that_cannot_be_had_are_refused_and_not_kept() {
    let site = Site::new().await;
    let configure = async |body: Value| site.post("/api/v1/configure", body).await;
    assert_eq!(configure(json!({"options": {}})).await.error(400), "queue is required");
    for (options, named) in [
        (json!({"encryptionEnabled": true}), "encrypt"),
        (json!({"conflation": true}), "options.conflation: unknown field `conflation`"),
        (json!({"leaseTime": 86_401}), "options.leaseTime is 86401; use 0 to 86400"),
        (json!({"ttl": -1}), "options.ttl is -1; use 0 to"),
        (json!({"ttl": "1h"}), "options.ttl: invalid type"),
        (json!({"ttl": 3_000_000_000_u32}), "options.ttl: invalid value"),
    ] {
        let answer = configure(json!({"queue": "q", "options": options})).await;
        assert!(answer.error(400).contains(named), "{options}: {answer:?}");
    }
    assert!(configure(json!({"queue": "q", "namespace": "a\u{0}"})).await.error(400).contains("a tag"));
    assert_eq!(site.get(QUEUE).await.error(404), "Queue not found", "nothing was made");
}

#[tokio::test]
async fn queues_show_what_is_in_them() {
    let site = Site::new().await;
    site.push("a", [1, 2, 3]).await;
    site.push("b", [4]).await;
    let popped = site.get("/api/v1/pop/queue/q/partition/a?batch=2").await;
    site.post("/api/v1/ack", popped.ack(0, "completed")).await;
    let counts =
        json!({"total": 4, "pending": 2, "processing": 1, "completed": 1, "failed": 0, "deadLetter": 0});
    let list = site.get("/api/v1/resources/queues").await;
    let queue = &list.json["queues"][0];
    assert_eq!(
        (&queue["name"], &queue["partitions"], &queue["messages"]),
        (&json!("q"), &json!(2), &counts),
        "{list:?}"
    );
    let view = site.get(QUEUE).await;
    assert_eq!((&view.json["totals"], &view.json["partitions"][1]["stats"]["pending"]), (&counts, &json!(1)));
    assert!(view.json["partitions"][0]["oldestMessage"].is_string());
    let status = site.get("/api/v1/status/queues/q").await;
    assert_eq!(
        (&status.json["totals"], &status.json["queue"]["config"]["leaseTime"]),
        (&counts, &json!(300))
    );
    let all = site.get("/api/v1/status").await;
    assert_eq!((&all.json["messages"], &all.json["leases"]["totalBatchSize"]), (&counts, &json!(1)));
    let overview = site.get("/api/v1/resources/overview").await;
    assert_eq!((&overview.json["messages"], &overview.json["lag"]["offset"]["max"]), (&counts, &json!(3)));
    let page = site.get("/api/v1/status/queues?limit=1&offset=1").await;
    assert_eq!(page.json, json!({"queues": [], "pagination": {"limit": 1, "offset": 1}}));
    let partitions = site.get("/api/v1/resources/partitions?queue=q").await;
    assert_eq!(partitions.json["partitions"][1]["name"], "b");
    assert_eq!(site.get("/api/v1/resources/partitions").await.json, partitions.json);
    let messages = site.get("/api/v1/status/queues/q/messages?limit=2").await;
    assert_eq!(
        (messages.list().len(), &messages.json[0]["transactionId"]),
        (2, &json!("4")),
        "the newest first"
    );
}

#[tokio::test]
async fn tags_are_listed() {
    let site = Site::new().await;
    let items = json!({"items": [{"queue": "shop.mail"}, {"queue": "shop.stock"}, {"queue": "plain"}]});
    site.post("/api/v1/push", items).await;
    let namespaces = site.get("/api/v1/resources/namespaces").await;
    assert_eq!(namespaces.json["namespaces"].as_array().unwrap().len(), 1);
    let shop = &namespaces.json["namespaces"][0];
    assert_eq!(
        (&shop["namespace"], &shop["queues"], &shop["messages"]["total"]),
        (&json!("shop"), &json!(2), &json!(2))
    );
    let tasks = site.get("/api/v1/resources/tasks").await;
    assert_eq!(
        (&tasks.json["tasks"][0]["task"], &tasks.json["tasks"][1]["task"]),
        (&json!("mail"), &json!("stock"))
    );
    let queues = site.get("/api/v1/resources/queues?namespace=shop&task=mail").await;
    assert_eq!(queues.json["queues"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_queue_is_cleared_and_deleted() {
    let site = Site::new().await;
    assert_eq!(site.delete("/api/v1/queues/q/clear").await.error(404), "Queue not found");
    site.push("p", [1]).await;
    assert_eq!(site.delete("/api/v1/queues/q/clear").await.json, json!({"success": true, "queue": "q"}));
    assert_eq!(site.pop("").await.status.as_u16(), 204);
    assert_eq!(site.delete(QUEUE).await.json, json!({"deleted": true, "queue": "q", "existed": true}));
    assert_eq!(site.delete(QUEUE).await.json, json!({"deleted": true, "queue": "q", "existed": false}));
}

#[tokio::test]
async fn messages_are_listed_by_what_they_are() {
    let site = Site::new().await;
    site.push("p", [1, 2, 3]).await;
    let popped = site.pop("batch=2").await;
    site.post("/api/v1/ack", popped.ack(0, "completed")).await;
    for (status, ids) in
        [("completed", vec!["1"]), ("processing", vec!["2"]), ("pending", vec!["3"]), ("dead_letter", vec![])]
    {
        let list = site.get(&format!("/api/v1/messages?queue=q&status={status}")).await;
        let found: Vec<_> = list.json["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["transactionId"].as_str().unwrap())
            .collect();
        assert_eq!(found, ids, "{status}");
    }
    let page = site.get("/api/v1/messages?limit=1&offset=1").await;
    assert_eq!(page.json["messages"][0]["queuePath"], "q/p");
    assert_eq!(page.json["messages"][0]["transactionId"], "2", "the newest first");
    assert!(site.get("/api/v1/messages?limit=1001").await.error(400).contains("limit is 1001"));
    assert!(site.get("/api/v1/messages?from=yesterday").await.error(400).contains("is no time"));
    for none in ["queue=%00", "ns=none", "to=2020-01-01T00:00:00Z", "partition=other"] {
        assert_eq!(site.get(&format!("/api/v1/messages?{none}")).await.json["messages"], json!([]), "{none}");
    }
}

#[tokio::test]
async fn one_message_is_shown_with_its_payload() {
    let site = Site::new().await;
    let popped = bury(&site, 7).await;
    let partition = popped.json["partitionId"].as_str().unwrap();
    let message = site.get(&format!("/api/v1/messages/{partition}/7")).await;
    assert_eq!(
        (&message.json["payload"], &message.json["status"]),
        (&json!(7), &json!("dead_letter")),
        "{message:?}"
    );
    assert_eq!(message.json["errorMessage"], "no such street");
    assert_eq!(message.json["consumerGroups"][0]["consumed"], true);
    for none in [
        "7/7",
        &format!("{partition}/8"),
        &format!("{partition}/%00"),
        "0198a5b4-0000-7000-8000-000000000001/7",
    ] {
        assert_eq!(
            site.get(&format!("/api/v1/messages/{none}")).await.error(404),
            "Message not found",
            "{none}"
        );
    }
}

#[tokio::test]
async fn dead_letters_are_listed_put_back_and_thrown_away() {
    let site = Site::new().await;
    let popped = bury(&site, 7).await;
    let path = format!("/api/v1/messages/{}/7", popped.json["partitionId"].as_str().unwrap());
    let list = site.get("/api/v1/dlq?queue=q&limit=10").await;
    assert_eq!(
        (&list.json["total"], &list.json["pagination"]),
        (&json!(1), &json!({"limit": 10, "offset": 0}))
    );
    let dead = &list.json["messages"][0];
    assert_eq!(
        (&dead["data"], &dead["errorMessage"], &dead["consumerGroup"]),
        (&json!(7), &json!("no such street"), &json!("__QUEUE_MODE__"))
    );
    assert_eq!(site.get("/api/v1/dlq?consumerGroup=other").await.json["total"], 0);
    assert_eq!(site.post(&format!("{path}/retry"), json!({})).await.json["success"], true);
    assert_eq!(site.pop("").await.payloads(), [7]);
    assert_eq!(
        site.post(&format!("{path}/retry"), json!({})).await.status.as_u16(),
        404,
        "it is not dead any more"
    );
    assert_eq!(site.post(&format!("{path}/dlq"), json!({})).await.json["success"], true, "it is leased");
    assert_eq!(site.post(&format!("{path}/dlq"), json!({})).await.status.as_u16(), 409, "and now it is not");
    assert_eq!(site.delete(&path).await.json["success"], true);
    assert_eq!(site.delete(&path).await.json["success"], false, "a message in the log is not deleted alone");
    assert_eq!(site.get("/api/v1/dlq").await.json["total"], 0);
}

#[tokio::test]
async fn groups_show_their_lag_and_are_moved_and_deleted() {
    let site = Site::new().await;
    site.push("p", [1, 2, 3]).await;
    let popped = site.pop("consumerGroup=g&batch=1").await;
    let groups = site.get("/api/v1/consumer-groups").await;
    let group = &groups.json[0];
    assert_eq!(
        (&group["name"], &group["totalLag"], &group["state"], &group["topics"]),
        (&json!("g"), &json!(3), &json!("Lagging"), &json!(["q"]))
    );
    let view = site.get("/api/v1/consumer-groups/g").await;
    let partition = &view.json["q"]["partitions"][0];
    assert_eq!(
        (&partition["offsetLag"], &partition["leaseActive"], &partition["workerId"]),
        (&json!(3), &json!(true), &popped.json["leaseId"])
    );
    assert_eq!(site.get("/api/v1/consumer-groups/none").await.json, json!({}));
    assert_eq!(site.get("/api/v1/consumer-groups/lagging").await.json, json!([]));
    assert_eq!(site.get("/api/v1/consumer-groups/lagging?minLagSeconds=0").await.json[0]["offsetLag"], 3);

    let seek = "/api/v1/consumer-groups/g/queues/q/seek";
    let end = site.post(seek, json!({"toEnd": true})).await;
    assert_eq!(
        end.json,
        json!({
            "success": true, "consumerGroup": "g", "queueName": "q", "seekToEnd": true, "targetTimestamp": null, "partitionsUpdated": 1,
        })
    );
    assert_eq!(site.pop("consumerGroup=g").await.status.as_u16(), 204);
    let back = site.post(seek, json!({"timestamp": "2020-01-01T00:00:00Z"})).await;
    assert_eq!(back.json["targetTimestamp"], "2020-01-01T00:00:00.000Z");
    assert_eq!(site.pop("consumerGroup=g&batch=9&autoAck=true").await.payloads(), [1, 2, 3]);
    let moved = site
        .post(
            "/api/v1/consumer-groups/g/subscription",
            json!({"subscriptionTimestamp": "2020-01-01T00:00:00Z"}),
        )
        .await;
    assert_eq!(moved.json["rowsUpdated"], 1);
    let end = site.post("/api/v1/consumer-groups/g/queues/q/partitions/p/seek", json!({})).await;
    assert_eq!((&end.json["updated"], &end.json["partitionName"]), (&json!(true), &json!("p")));
    assert_eq!(site.pop("consumerGroup=g").await.status.as_u16(), 204);

    for wrong in
        [json!({}), json!({"toEnd": true, "timestamp": "2020-01-01T00:00:00Z"}), json!({"timestamp": "soon"})]
    {
        assert_eq!(site.post(seek, wrong).await.status.as_u16(), 400);
    }
    assert_eq!(
        site.post("/api/v1/consumer-groups/g/queues/none/seek", json!({"toEnd": true})).await.error(404),
        "Queue not found"
    );
    let deleted = site.delete("/api/v1/consumer-groups/g/queues/q").await;
    assert_eq!((&deleted.json["deletedPartitions"], &deleted.json["queueName"]), (&json!(1), &json!("q")));
    assert_eq!(
        site.delete("/api/v1/consumer-groups/g?deleteMetadata=true").await.json["deletedPartitions"],
        0
    );
    assert_eq!(site.get("/api/v1/consumer-groups").await.json, json!([]));
}

#[tokio::test]
async fn maintenance_refuses_pushes_and_answers_pops_with_nothing() {
    let site = Site::new().await;
    site.push("p", [1]).await;
    let set = async |path: &str, on: bool| site.post(path, json!({"enabled": on})).await;
    let (push, pop) = ("/api/v1/system/maintenance", "/api/v1/system/maintenance/pop");
    assert_eq!(set(push, true).await.json["maintenanceMode"], true);
    let refused = site.post("/api/v1/push", json!({"items": [{"queue": "q"}]})).await;
    assert!(refused.error(503).contains("maintenance"), "{refused:?}");
    assert_eq!(refused.retry_after.as_deref(), Some("1"));
    let operations = json!([{"type": "push", "items": [{"queue": "q"}]}]);
    assert!(
        site.post("/api/v1/transaction", json!({ "operations": operations }))
            .await
            .error(503)
            .contains("maintenance")
    );
    assert_eq!(site.pop("").await.payloads(), [1], "pops are served");
    assert_eq!(set(push, false).await.json["maintenanceMode"], false);
    site.push("o", [2]).await;

    let waiter = crate::pop::wait(&site, "/api/v1/pop/queue/other?wait=true&timeout=3600000");
    site.waiting(1).await;
    assert_eq!(set(pop, true).await.json["popMaintenanceMode"], true);
    assert_eq!(waiter.await.unwrap().status.as_u16(), 204, "those who wait are answered");
    assert_eq!(site.pop("").await.status.as_u16(), 204);
    assert_eq!(site.get(pop).await.json["popMaintenanceMode"], true);
    assert_eq!(set(pop, false).await.json["popMaintenanceMode"], false);
    assert_eq!(site.pop("").await.payloads(), [2]);
    assert!(site.post(push, json!({})).await.error(400).contains("enabled is required"));
}

#[tokio::test]
async fn maintenance_that_another_node_began_is_obeyed() {
    let site = Site::new().await;
    let waiter = crate::pop::wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000");
    site.waiting(1).await;
    site.execute("SELECT bugle.set_maintenance(true, true)").await;
    assert_eq!(waiter.await.unwrap().status.as_u16(), 204);
    assert_eq!(site.post("/api/v1/push", json!({"items": [{"queue": "q"}]})).await.status.as_u16(), 503);
}

#[tokio::test]
async fn what_comes_later_says_so() {
    let site = Site::new().await;
    assert!(
        site.post("/streams/v1/queries", json!({})).await.error(501).contains("streams are not built yet")
    );
    assert!(site.get("/api/v1/traces/by-name/x").await.error(501).contains("traces are not built yet"));
    assert!(site.get("/api/v1/analytics/queue-lag").await.error(501).contains("/metrics"));
    let buffers = site.get("/api/v1/status/buffers").await.json;
    assert_eq!((&buffers["pending"], &buffers["dbHealthy"]), (&json!(0), &json!(true)));
    assert_eq!(site.post("/api/v1/stats/refresh", json!({})).await.json["success"], true);
}

#[tokio::test]
async fn a_full_queue_answers_429_and_refuses_its_own_items_alone() {
    let site = Site::new().await;
    site.post("/api/v1/configure", json!({"queue": "small", "options": {"maxSize": 1}})).await;
    let items = json!({"items": [{"queue": "small", "payload": 1}, {"queue": "small", "payload": 2}, {"queue": "q", "payload": 3}]});
    let push = site.post("/api/v1/push", items).await;
    let status: Vec<_> = push.list().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["queued", "failed", "queued"], "{push:?}");
    let full = site.post("/api/v1/push", json!({"items": [{"queue": "small"}]})).await;
    assert!(full.error(429).contains("queue \"small\" is full"), "{full:?}");
    assert_eq!(full.retry_after.as_deref(), Some("1"));
    let push = json!({"type": "push", "items": [{"queue": "q"}, {"queue": "small"}]});
    let refused = site.post("/api/v1/transaction", json!({ "operations": [push] })).await;
    let why = refused.json["error"].as_str().unwrap_or_default();
    assert!(why.starts_with("operations[0].items[1] (push): queue \"small\" is full; "), "{refused:?}");
}
