//! All routes × all roles.
use crate::fixture::{Site, until};
use bugle::access::Right;
use bugle_server::Jwt;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Push,
    Pop,
    Transact,
    Inspect,
    Configure,
    Move,
    Admin,
}

impl Need {
    fn is_met_by(self, rights: &[Right]) -> bool {
        let has = |right| rights.contains(&right);
        match self {
            Self::Nothing => true,
            Self::Push => has(Right::Push),
            Self::Pop => has(Right::Pop),
            Self::Transact => has(Right::Push) && has(Right::Pop),
            Self::Inspect => has(Right::Inspect),
            Self::Configure => has(Right::Push) && has(Right::Pop) || has(Right::Admin),
            Self::Move => has(Right::Pop) || has(Right::Admin),
            Self::Admin => has(Right::Admin),
        }
    }
}

/// Every route and what it needs. One that is missing here fails the test.
const ROUTES: &[(&str, &str, Need)] = &[
    ("get", "/livez", Need::Nothing),
    ("get", "/readyz", Need::Nothing),
    ("get", "/health", Need::Nothing),
    ("get", "/metrics", Need::Nothing),
    ("get", "/metrics/prometheus", Need::Nothing),
    ("get", "/metrics/queues", Need::Inspect),
    ("get", "/openapi.json", Need::Nothing),
    ("post", "/api/v1/push", Need::Push),
    ("get", "/api/v1/pop", Need::Pop),
    ("get", "/api/v1/pop/queue/{queue}", Need::Pop),
    ("get", "/api/v1/pop/queue/{queue}/partition/{partition}", Need::Pop),
    ("post", "/api/v1/ack", Need::Pop),
    ("post", "/api/v1/ack/batch", Need::Pop),
    ("post", "/api/v1/lease/{lease_id}/extend", Need::Pop),
    ("post", "/api/v1/transaction", Need::Transact),
    ("post", "/api/v1/configure", Need::Configure),
    ("get", "/api/v1/resources/queues", Need::Inspect),
    ("get", "/api/v1/resources/queues/{queue}", Need::Inspect),
    ("delete", "/api/v1/resources/queues/{queue}", Need::Admin),
    ("delete", "/api/v1/queues/{queue}/clear", Need::Admin),
    ("get", "/api/v1/resources/partitions", Need::Inspect),
    ("get", "/api/v1/resources/namespaces", Need::Inspect),
    ("get", "/api/v1/resources/tasks", Need::Inspect),
    ("get", "/api/v1/resources/overview", Need::Inspect),
    ("get", "/api/v1/messages", Need::Inspect),
    ("get", "/api/v1/messages/{partition_id}/{transaction_id}", Need::Inspect),
    ("delete", "/api/v1/messages/{partition_id}/{transaction_id}", Need::Move),
    ("post", "/api/v1/messages/{partition_id}/{transaction_id}/retry", Need::Move),
    ("post", "/api/v1/messages/{partition_id}/{transaction_id}/dlq", Need::Move),
    ("get", "/api/v1/dlq", Need::Inspect),
    ("get", "/api/v1/consumer-groups", Need::Inspect),
    ("get", "/api/v1/consumer-groups/lagging", Need::Inspect),
    ("get", "/api/v1/consumer-groups/{group}", Need::Inspect),
    ("delete", "/api/v1/consumer-groups/{group}", Need::Admin),
    ("delete", "/api/v1/consumer-groups/{group}/queues/{queue}", Need::Admin),
    ("post", "/api/v1/consumer-groups/{group}/subscription", Need::Move),
    ("post", "/api/v1/consumer-groups/{group}/queues/{queue}/seek", Need::Move),
    ("post", "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", Need::Move),
    ("get", "/api/v1/status", Need::Inspect),
    ("get", "/api/v1/status/queues", Need::Inspect),
    ("get", "/api/v1/status/queues/{queue}", Need::Inspect),
    ("get", "/api/v1/status/queues/{queue}/messages", Need::Inspect),
    ("get", "/api/v1/status/buffers", Need::Inspect),
    ("get", "/api/v1/status/analytics", Need::Inspect),
    ("get", "/api/v1/system/maintenance", Need::Admin),
    ("post", "/api/v1/system/maintenance", Need::Admin),
    ("get", "/api/v1/system/maintenance/pop", Need::Admin),
    ("post", "/api/v1/system/maintenance/pop", Need::Admin),
    ("post", "/api/v1/stats/refresh", Need::Admin),
    ("post", "/api/v1/flow/definitions", Need::Configure),
    ("post", "/api/v1/flow/runs", Need::Push),
    ("get", "/api/v1/flow/runs/{run}", Need::Inspect),
    ("post", "/api/v1/flow/runs/{run}/cancel", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/pause", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/resume", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/steps/{step}/retry", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/steps/{step}/resolve", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/steps/{step}/skip", Need::Admin),
    ("post", "/api/v1/flow/runs/{run}/steps/{step}/restart", Need::Admin),
    ("get", "/api/v1/flow/definitions", Need::Inspect),
    ("get", "/api/v1/flow/definitions/{name}", Need::Inspect),
    ("get", "/api/v1/flow/runs", Need::Inspect),
    ("get", "/api/v1/flow/runs/{run}/why", Need::Inspect),
    ("get", "/api/v1/flow/runs/{run}/events", Need::Inspect),
    ("get", "/api/v1/flow/dead", Need::Inspect),
    ("get", "/api/v1/flow/dead/{run}", Need::Inspect),
    ("post", "/api/v1/flow/signals", Need::Push),
    ("post", "/api/v1/flow/queues/{queue}/claim", Need::Pop),
    ("post", "/api/v1/flow/steps/renew", Need::Pop),
    ("post", "/api/v1/flow/steps/checkpoint", Need::Pop),
    ("post", "/api/v1/flow/steps/complete", Need::Pop),
    ("post", "/api/v1/flow/steps/fail", Need::Pop),
    ("post", "/api/v1/flow/steps/release", Need::Pop),
    ("get", "/api/v1/flow/settings", Need::Inspect),
    ("post", "/api/v1/flow/settings", Need::Admin),
    ("post", "/api/v1/flow/settings/mode", Need::Admin),
    ("post", "/api/v1/flow/settings/paused", Need::Admin),
    ("post", "/streams/v1/queries", Need::Inspect),
    ("post", "/streams/v1/cycle", Need::Inspect),
    ("post", "/streams/v1/state/get", Need::Inspect),
    ("post", "/api/v1/traces", Need::Inspect),
    ("get", "/api/v1/traces/names", Need::Inspect),
    ("get", "/api/v1/traces/by-name/{name}", Need::Inspect),
    ("get", "/api/v1/traces/{partition_id}/{transaction_id}", Need::Inspect),
    ("get", "/api/v1/analytics/system-metrics", Need::Inspect),
    ("get", "/api/v1/analytics/worker-metrics", Need::Inspect),
    ("get", "/api/v1/analytics/queue-lag", Need::Inspect),
    ("get", "/api/v1/analytics/queue-ops", Need::Inspect),
    ("get", "/api/v1/analytics/queue-parked-replicas", Need::Inspect),
    ("get", "/api/v1/analytics/retention", Need::Inspect),
    ("get", "/api/v1/analytics/postgres-stats", Need::Inspect),
];

/// The status of one call.
async fn call(site: &Site, method: &str, path: &str, shown: Option<&str>) -> u16 {
    let path = path
        .split('/')
        .map(|part| if part.starts_with('{') { "q" } else { part })
        .collect::<Vec<_>>()
        .join("/");
    let method: Method = method.to_uppercase().parse().unwrap();
    let mut request = site.http.request(method.clone(), site.path(&path));
    if method == Method::POST {
        request = request.json(&json!({}));
    }
    if let Some(shown) = shown {
        request = request.bearer_auth(shown);
    }
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn the_table_names_every_route() {
    let site = Site::new().await;
    let document = site.get("/openapi.json").await;
    let described = document.json["paths"].as_object().unwrap().iter();
    let described: BTreeSet<(String, String)> = described
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
        })
        .collect();
    let table: BTreeSet<(String, String)> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(described, table);
    assert_eq!(table.len(), ROUTES.len(), "each once");
}

#[tokio::test]
async fn every_route_is_for_those_alone_who_have_its_right() {
    let secret = b"a secret of thirty-two bytes, at least";
    let site = Site::with_jwt(Jwt::hs256(secret).unwrap()).await;
    let rights: [&[Right]; 6] = [
        &[Right::Push],
        &[Right::Pop],
        &[Right::Inspect],
        &[Right::Admin],
        &[Right::Push, Right::Pop],
        &Right::ALL,
    ];
    let mut callers = Vec::new();
    for (place, rights) in rights.into_iter().enumerate() {
        let key = site.key(&format!("key {place}"), "", rights.iter().copied()).await;
        callers.push((key.reveal().to_owned(), rights));
    }
    let roles: [(&str, &[Right]); 4] = [
        ("read-only", &[Right::Inspect]),
        ("read-write", &[Right::Push, Right::Pop, Right::Inspect]),
        ("admin", &Right::ALL),
        ("visitor", &[]),
    ];
    for (role, rights) in roles {
        callers.push((token(secret, role), rights));
    }
    for (method, path, need) in ROUTES {
        let nobody = call(&site, method, path, None).await;
        assert_eq!(nobody == 401, *need != Need::Nothing, "{method} {path} without a key: {nobody}");
        for (shown, rights) in &callers {
            let status = call(&site, method, path, Some(shown)).await;
            let is_refused = matches!(status, 401 | 403);
            assert_eq!(is_refused, !need.is_met_by(rights), "{method} {path} for {rights:?}: {status}");
            assert!(status < 500 || status == 501, "{method} {path} for {rights:?}: {status}");
        }
    }
}

fn token(secret: &[u8], role: &str) -> String {
    let claims = json!({"sub": "somebody", "role": role, "exp": 4_000_000_000_u64});
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret)).unwrap()
}

#[tokio::test]
async fn a_server_without_keys_is_closed_when_the_first_is_made_and_stays_so() {
    let site = Site::new().await;
    assert_eq!(call(&site, "get", "/api/v1/resources/queues", None).await, 200);
    let key = site.key("first", "", Right::ALL).await;
    until("callers need a key", async || call(&site, "get", "/api/v1/resources/queues", None).await == 401)
        .await;
    assert_eq!(call(&site, "get", "/api/v1/resources/queues", Some(key.reveal())).await, 200);
    site.bugle.access().revoke("first").await.unwrap();
    until("the key is refused", async || {
        call(&site, "get", "/api/v1/resources/queues", Some(key.reveal())).await == 401
    })
    .await;
    assert_eq!(call(&site, "get", "/api/v1/resources/queues", None).await, 401, "still closed");
}
