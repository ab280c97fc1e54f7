//! Is it there, and is it ready?
use crate::fixture::{Site, until};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_server_says_that_it_lives_and_is_ready() {
    let site = Site::new().await;
    let live = site.get("/livez").await;
    assert_eq!((live.status.as_u16(), &live.json), (200, &json!("ok\n")));
    let ready = site.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json), (200, &json!("ok\n")));
    let verbose = site.get("/readyz?verbose").await;
    assert_eq!(verbose.json, json!("[+]database ok\n[+]serving ok\nok\n"));
    let health = site.get("/health").await;
    assert_eq!(health.status.as_u16(), 200);
    assert_eq!((&health.json["status"], &health.json["database"]), (&json!("healthy"), &json!("connected")));
    until("all is well", async || site.get("/health").await.json["level"] == "ok").await;
    let checks = site.get("/health").await.json["checks"].clone();
    let names: Vec<_> = checks.as_array().unwrap().iter().map(|check| check["name"].clone()).collect();
    assert_eq!(names, ["listener", "coordinators", "fallback", "lag"]);
    assert!(checks.as_array().unwrap().iter().all(|check| !check["reason"].as_str().unwrap().is_empty()));
}

#[tokio::test]
async fn without_a_database_it_lives_and_is_not_ready() {
    let site = Site::new().await;
    site.bugle.pool().close().await;
    assert_eq!(site.get("/livez").await.status.as_u16(), 200);
    let ready = site.get("/readyz").await;
    assert_eq!(ready.status.as_u16(), 503);
    assert!(ready.json.as_str().unwrap().starts_with("[-]database failed: "), "{ready:?}");
    let health = site.get("/health").await;
    assert_eq!((health.status.as_u16(), &health.json["status"]), (503, &json!("unhealthy")));
    let push = site.post("/api/v1/push", json!({"items": [{"queue": "q"}]})).await;
    assert!(push.error(503).contains("no connection to the database"), "{push:?}");
    assert_eq!(push.retry_after.as_deref(), Some("1"));
}

#[tokio::test]
async fn unknown_routes_and_methods_answer_json() {
    let site = Site::new().await;
    assert!(site.get("/api/v1/nothing").await.error(404).contains("/api/v1/nothing"));
    assert!(site.get("/api/v1/push").await.error(405).contains("GET"));
    let options = site.send(Method::PATCH, "/api/v1/ack", None).await;
    assert!(options.error(405).contains("PATCH"));
}

#[tokio::test]
async fn a_web_page_of_another_host_is_refused_where_there_are_no_keys() {
    let site = Site::new().await;
    let push = |header: &'static str, value: &'static str| {
        let body = r#"{"items": [{"queue": "q"}]}"#;
        site.http.post(site.path("/api/v1/push")).header(header, value).body(body).send()
    };
    assert_eq!(push("origin", "https://shop.example").await.unwrap().status().as_u16(), 403);
    assert_eq!(push("host", "rebound.example").await.unwrap().status().as_u16(), 403);
    assert_eq!(push("origin", "http://localhost:3000").await.unwrap().status().as_u16(), 201);
    until("one message was pushed", async || {
        site.one::<i64>("SELECT count(*) FROM bugle.message").await == 1
    })
    .await;
}

#[tokio::test]
async fn the_document_describes_the_routes() {
    let site = Site::new().await;
    let document = site.get("/openapi.json").await;
    assert_eq!((document.status.as_u16(), &document.json["info"]["title"]), (200, &json!("Bugle")));
    let push = &document.json["paths"]["/api/v1/push"]["post"];
    assert!(push["responses"]["201"].is_object() && push["responses"]["400"].is_object(), "{push}");
    assert!(document.json["components"]["schemas"]["PopAnswer"].is_object());
}

#[tokio::test]
async fn prometheus_reads_what_was_counted() {
    let site = Site::new().await;
    site.push("p", [1, 2]).await;
    site.push("o", [3]).await;
    let popped = site.get("/api/v1/pop/queue/q?wait=true&batch=9&partitions=9").await;
    site.post("/api/v1/ack", popped.ack(0, "dlq")).await;
    for path in ["/metrics", "/metrics/prometheus"] {
        let text = site.get(path).await.json.as_str().unwrap().to_owned();
        for line in [
            "bugle_messages_pushed_total 3",
            "bugle_messages_popped_total 3",
            "bugle_messages_settled_total 1",
            "bugle_messages_dead_total 1",
            "bugle_http_requests_total{route=\"/api/v1/push\",method=\"POST\",status=\"2xx\"} 2",
            "bugle_http_requests_in_flight 1",
            "bugle_intentions 0",
            "bugle_wake_hand_outs_total 1",
            "bugle_broker_requests_total{kind=\"push\"} 2",
            "bugle_broker_statements_total{kind=\"push\"} 2",
            "bugle_broker_requests_total{kind=\"ack\"} 1",
            "bugle_broker_statements_total{kind=\"ack\"} 1",
            "bugle_database_connections_waited_for 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("\"q\""), "no queue is named");
        assert!(text.contains("bugle_broker_statements_total{kind=\"pop\"} "), "{text}");
        assert!(text.contains("bugle_database_connections{state=\"in_use\"} "), "{text}");
    }
    let text = site.get("/metrics/queues").await.json.as_str().unwrap().to_owned();
    assert!(text.contains("bugle_queue_messages{queue=\"q\",state=\"dead\"} 1\n"), "{text}");
    assert!(text.contains("bugle_group_lag_messages{queue=\"q\",group=\"__QUEUE_MODE__\"} 2\n"), "{text}");
}

/// Two types of one name would be described as one of them.
#[test]
fn no_two_descriptions_have_one_name() {
    let mut names = std::collections::BTreeMap::new();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = ["", "routes", "routes/flow"].into_iter().flat_map(|folder| {
        let files = std::fs::read_dir(source.join(folder)).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).collect::<Vec<_>>()
    });
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut is_described = false;
        for line in text.lines() {
            is_described |= line.contains("derive(") && line.contains("ToSchema");
            let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
            if is_described && matches!(words.next(), Some("struct" | "enum")) {
                is_described = false;
                let name = words.next().unwrap().to_owned();
                let other = names.insert(name.clone(), path.clone());
                assert_eq!(other, None, "{name} is described in two places, one of them {}", path.display());
            }
        }
    }
    assert!(names.len() > 40, "{names:?}");
}
