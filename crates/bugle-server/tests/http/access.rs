//! Keys and tokens.
use crate::fixture::{LOOPBACK, SOON, Site, node};
use bugle::access::{NewKey, Right, Scope};
use bugle::name::NamespaceName;
use bugle_server::{Jwt, Options, Server, StartError};
use bugle_testkit::postgres::TestDb;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECRET: &[u8] = b"a secret of thirty-two bytes, at least";

/// A server with keys, and a key that it was called with from then on.
async fn closed(queues: &str, rights: impl IntoIterator<Item = Right>) -> Site {
    let db = TestDb::schema().await.unwrap();
    let bugle = node(&db, bugle::wake_engine::Options::default()).await;
    let key = NewKey::new("caller").unwrap().scope(Scope::new(queues, rights).unwrap());
    let (secret, _) = bugle.access().create(&key).await.unwrap();
    let mut site = Site::serve(db, bugle, Options::new(LOOPBACK.parse().unwrap())).await;
    site.show(secret.reveal());
    site
}

#[tokio::test]
async fn a_key_reaches_the_queues_of_its_prefix_alone() {
    let site = closed("shop.", Right::ALL).await;
    let other = bugle::broker::Message::new("payroll", serde_json::value::RawValue::NULL.to_owned()).unwrap();
    site.bugle.broker().push(vec![other.key("t").unwrap()]).await.unwrap();
    let other = site.bugle.broker().pop(&bugle::broker::Pop::new("payroll").unwrap()).await.unwrap().unwrap();
    let partition = other.messages[0].partition.uuid();

    let push =
        site.post("/api/v1/push", json!({"items": [{"queue": "shop.mail"}, {"queue": "payroll"}]})).await;
    assert_eq!((&push.json[0]["status"], &push.json[1]["status"]), (&json!("queued"), &json!("failed")));
    assert!(push.json[1]["error"].as_str().unwrap().contains("needs push for queue \"payroll\""), "{push:?}");
    assert!(
        site.post("/api/v1/push", json!({"items": [{"queue": "payroll"}]}))
            .await
            .error(403)
            .contains("payroll")
    );
    assert_eq!(site.get("/api/v1/pop/queue/payroll").await.status.as_u16(), 403);
    assert_eq!(site.get("/api/v1/pop?namespace=shop").await.status.as_u16(), 403, "tags may be of any queue");
    let ack = json!({"transactionId": "t", "partitionId": partition, "leaseId": other.token});
    let acked = site.post("/api/v1/ack", ack.clone()).await;
    assert_eq!(acked.json[0]["success"], false);
    assert!(acked.json[0]["error"].as_str().unwrap().contains("payroll"), "{acked:?}");
    let mut operation = ack;
    operation["type"] = json!("ack");
    let transaction = site.post("/api/v1/transaction", json!({ "operations": [operation] })).await;
    assert!(transaction.error(403).starts_with("operations[0]: Insufficient permissions"), "{transaction:?}");
    for path in [
        "/api/v1/resources/queues/payroll".to_owned(),
        "/api/v1/dlq".to_owned(),
        "/api/v1/dlq?queue=payroll".to_owned(),
        format!("/api/v1/messages/{partition}/t"),
        "/api/v1/system/maintenance".to_owned(),
    ] {
        assert_eq!(site.get(&path).await.status.as_u16(), 403, "{path}");
    }
    for path in [
        "/api/v1/resources/queues",
        "/api/v1/consumer-groups",
        "/api/v1/messages",
        "/api/v1/status",
        "/metrics/queues",
    ] {
        let list = site.get(path).await;
        assert_eq!(list.status.as_u16(), 200, "{path}");
        assert!(!list.json.to_string().contains("payroll"), "{path}: {list:?}");
    }
    assert_eq!(site.delete("/api/v1/consumer-groups/__QUEUE_MODE__").await.json["deletedPartitions"], 0);
    let popped = site.get("/api/v1/pop/queue/shop.mail").await;
    assert_eq!(popped.json["messages"][0]["producerSub"], "key:caller");
    assert_eq!(site.post("/api/v1/ack", popped.ack(0, "completed")).await.json[0]["success"], true);
}

#[tokio::test]
async fn a_key_of_another_namespace_opens_nothing() {
    let mut site = closed("", Right::ALL).await;
    let other = NamespaceName::parse("other").unwrap();
    site.bugle.create_namespace(&other).await.unwrap();
    let options = bugle::Options {
        schema: site.db.schema_name().unwrap(),
        namespace: other,
        ..bugle::Options::default()
    };
    let there = bugle::Bugle::new(site.db.pool().clone(), options).await.unwrap();
    let key = NewKey::new("there").unwrap().scope(Scope::new("", Right::ALL).unwrap());
    let (secret, _) = there.access().create(&key).await.unwrap();
    site.show(secret.reveal());
    assert!(site.get("/api/v1/resources/queues").await.error(403).contains("namespace \"other\""));
}

#[tokio::test]
async fn what_is_no_key_is_told_how_to_get_in() {
    let mut site = closed("", Right::ALL).await;
    let unknown = format!("bugle_{}", "0".repeat(64));
    for shown in ["nonsense", unknown.as_str(), "a.b.c"] {
        site.show(shown);
        let answer = site.get("/api/v1/resources/queues").await;
        assert!(answer.error(401).starts_with("Authentication required"), "{answer:?}");
    }
    let bare = reqwest::get(site.path("/api/v1/resources/queues")).await.unwrap();
    assert_eq!(bare.headers()["www-authenticate"], "Bearer");
    let basic = site.http.get(site.path("/api/v1/resources/queues")).header("authorization", "Basic eDp5");
    assert_eq!(basic.send().await.unwrap().status().as_u16(), 401);
}

#[tokio::test]
async fn whoever_waits_with_a_key_that_is_revoked_is_told_and_gets_nothing() {
    let site = closed("", Right::ALL).await;
    let waiter = crate::pop::wait(&site, "/api/v1/pop/queue/q?wait=true&autoAck=true&timeout=3600000");
    site.waiting(1).await;
    // Control changes for many reasons: those whose keys hold go on waiting.
    site.bugle.create_namespace(&NamespaceName::parse("other").unwrap()).await.unwrap();
    site.key("second", "", Right::ALL).await;
    assert_eq!(site.get("/api/v1/resources/queues").await.status.as_u16(), 200);
    assert!(!waiter.is_finished());
    site.bugle.access().revoke("caller").await.unwrap();
    assert!(waiter.await.unwrap().error(401).contains("revoked"));
    site.waiting(0).await;
}

#[tokio::test]
async fn whoever_waits_with_a_key_that_expires_is_told_when_it_does() {
    let mut site = closed("", Right::ALL).await;
    let key = NewKey::new("short").unwrap().scope(Scope::new("", Right::ALL).unwrap());
    let (secret, _) = site.bugle.access().create(&key.lifetime(Duration::from_secs(6))).await.unwrap();
    site.show(secret.reveal());
    let waiter = crate::pop::wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000");
    site.waiting(1).await;
    // The heartbeat is an hour away, and nobody rings.
    let answer = tokio::time::timeout(SOON, waiter).await.expect("it waits on").unwrap();
    assert!(answer.error(401).contains("has expired; use another one"), "{answer:?}");
    site.waiting(0).await;
    // Two clocks may differ by a moment: of the one the key has expired, of the other it is about to.
    let mut short = site.pop("wait=true&timeout=1").await;
    for _ in 0..100 {
        if short.status == 401 {
            break;
        }
        short = site.pop("wait=true&timeout=100").await;
    }
    assert!(short.error(401).contains("expired"), "{short:?}");
}

#[tokio::test]
async fn whoever_waits_with_a_token_that_expires_is_told_when_it_does() {
    let mut site = Site::with_jwt(Jwt::hs256(SECRET).unwrap()).await;
    // A minute is granted to clocks that differ: ten seconds of it are left.
    let expiry = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 50;
    let claims = json!({"role": "read-write", "exp": expiry});
    site.show(&token(&Header::new(Algorithm::HS256), &EncodingKey::from_secret(SECRET), &claims));
    let waiter = crate::pop::wait(&site, "/api/v1/pop/queue/q?wait=true&timeout=3600000");
    site.waiting(1).await;
    let answer = tokio::time::timeout(SOON, waiter).await.expect("it waits on").unwrap();
    assert!(answer.error(401).contains("has expired; use another one"), "{answer:?}");
}

/// Neither while it runs nor when it is started again.
#[tokio::test]
async fn a_server_whose_last_key_was_revoked_stays_closed() {
    let site = closed("", [Right::Push]).await;
    assert!(site.bugle.access().revoke("caller").await.unwrap());
    site.get("/api/v1/resources/queues").await.error(401);
    let again = Server::bind(site.bugle.clone(), Options::new(LOOPBACK.parse().unwrap())).await.unwrap();
    assert!(!again.is_open());
}

#[tokio::test]
async fn without_keys_only_this_machine_is_served() {
    let db = TestDb::schema().await.unwrap();
    let bugle = node(&db, bugle::wake_engine::Options::default()).await;
    let everywhere = || Options::new("0.0.0.0:0".parse().unwrap());
    let refused = Server::bind(bugle.clone(), everywhere()).await.err().unwrap();
    assert!(matches!(refused, StartError::OpenToOthers { .. }), "{refused:?}");
    assert!(refused.to_string().contains("bugle key create"), "{refused}");
    let key = NewKey::new("k").unwrap().scope(Scope::new("", Right::ALL).unwrap());
    bugle.access().create(&key).await.unwrap();
    assert!(!Server::bind(bugle, everywhere()).await.unwrap().is_open());
}

fn token(header: &Header, key: &EncodingKey, claims: &Value) -> String {
    jsonwebtoken::encode(header, claims, key).unwrap()
}

#[tokio::test]
async fn the_subject_of_a_token_is_the_producer_of_what_it_pushes() {
    let mut site = Site::with_jwt(Jwt::hs256(SECRET).unwrap()).await;
    let claims = json!({"sub": "alice", "roles": ["read-write"], "exp": 4_000_000_000_u64});
    site.show(&token(&Header::new(Algorithm::HS256), &EncodingKey::from_secret(SECRET), &claims));
    site.post("/api/v1/push", json!({"items": [{"queue": "q", "payload": 1, "producerSub": "mallory"}]}))
        .await;
    let popped = site.pop("").await;
    assert_eq!(popped.json["messages"][0]["producerSub"], "alice");
}

#[tokio::test]
async fn tokens_that_are_old_forged_or_for_somebody_else_are_refused() {
    let jwt = Jwt::hs256(SECRET).unwrap().issuer("us").audience("bugle");
    let mut site = Site::with_jwt(jwt).await;
    let good = json!({"role": "admin", "exp": 4_000_000_000_u64, "iss": "us", "aud": "bugle"});
    let (hs256, secret) = (Header::new(Algorithm::HS256), EncodingKey::from_secret(SECRET));
    let with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        claims
    };
    let without = |field: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(field);
        claims
    };
    site.show(&token(&hs256, &secret, &good));
    assert_eq!(site.get("/api/v1/resources/queues").await.status.as_u16(), 200);
    let unsigned =
        format!("eyJhbGciOiJub25lIn0.{}.", token(&hs256, &secret, &good).split('.').nth(1).unwrap());
    let forged = [
        token(&hs256, &secret, &with("exp", json!(1_000_000_000))),
        token(&hs256, &secret, &with("nbf", json!(4_000_000_000_u64))),
        token(&hs256, &secret, &with("iss", json!("them"))),
        token(&hs256, &secret, &with("aud", json!("others"))),
        token(&hs256, &secret, &without("exp")),
        token(&hs256, &secret, &without("iss")),
        token(&hs256, &secret, &without("aud")),
        token(&hs256, &EncodingKey::from_secret(b"another secret of thirty-two bytes"), &good),
        token(&Header::new(Algorithm::HS512), &secret, &good),
        unsigned,
    ];
    for (place, forged) in forged.iter().enumerate() {
        site.show(forged);
        let answer = site.get("/api/v1/resources/queues").await;
        assert!(answer.error(401).starts_with("Authentication required"), "{place}: {answer:?}");
    }
}

#[tokio::test]
async fn tokens_of_a_key_pair_are_checked_with_the_public_one() {
    let public = include_bytes!("keys/rsa_public.pem");
    let mut site = Site::with_jwt(Jwt::rs256(public).unwrap()).await;
    let claims = json!({"role": "read-only", "exp": 4_000_000_000_u64});
    let private = EncodingKey::from_rsa_pem(include_bytes!("keys/rsa_private.pem")).unwrap();
    site.show(&token(&Header::new(Algorithm::RS256), &private, &claims));
    assert_eq!(site.get("/api/v1/resources/queues").await.status.as_u16(), 200);
    assert_eq!(site.post("/api/v1/push", json!({"items": []})).await.status.as_u16(), 403);
    // The public key is no secret: a token that was signed with it as if it were one is forged.
    site.show(&token(&Header::new(Algorithm::HS256), &EncodingKey::from_secret(public), &claims));
    assert_eq!(site.get("/api/v1/resources/queues").await.status.as_u16(), 401);
    assert!(Jwt::rs256(b"no key").unwrap_err().to_string().contains("PEM"));
    assert!(Jwt::hs256(b"short").unwrap_err().to_string().contains("at least 32"));
}
