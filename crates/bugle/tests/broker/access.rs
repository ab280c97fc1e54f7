//! Who may do what.
use crate::fixture::{Place, until};
use bugle::access::{Keyring, NewKey, Right, Scope, Secret};
use futures_util::future::join_all;
use std::time::Duration;

fn key(name: &str) -> NewKey {
    NewKey::new(name).unwrap().scope(Scope::new("orders.", [Right::Push, Right::Pop]).unwrap())
}

#[tokio::test]
async fn a_key_opens_what_it_was_made_for_and_nothing_else() {
    let place = Place::new().await;
    assert!(!place.bugle.access().has_keys().await.unwrap());
    let (secret, row) = place.bugle.access().create(&key("shop")).await.unwrap();
    assert!(place.bugle.access().has_keys().await.unwrap());
    let keyring = Keyring::new(&place.bugle);
    let grant = keyring.find(&secret).await.unwrap().unwrap();
    assert_eq!((grant.id, &*grant.name, &*grant.namespace), (row.id, "shop", "default"));
    assert!(grant.allows(Right::Push, "orders.new") && grant.allows(Right::Pop, "orders."));
    assert!(!grant.allows(Right::Inspect, "orders.new") && !grant.allows(Right::Push, "other"));
    let digits = "0".repeat(64);
    let stranger = Secret::parse(&format!("bugle_{digits}")).unwrap();
    assert_eq!(keyring.find(&stranger).await.unwrap(), None);
}

#[tokio::test]
async fn the_database_does_not_know_the_secret() {
    let place = Place::new().await;
    let (secret, _) = place.bugle.access().create(&key("shop")).await.unwrap();
    let row: String = place.one("SELECT k::text FROM bugle.api_key k").await;
    let digits = secret.reveal().strip_prefix("bugle_").unwrap();
    assert!(!row.contains(digits), "{row}");
    let fits: bool = place
        .one(&format!("SELECT hash = sha256(convert_to('{}', 'UTF8')) FROM bugle.api_key", secret.reveal()))
        .await;
    assert!(fits);
}

#[tokio::test]
async fn a_revoked_key_is_refused_on_every_node() {
    let place = Place::new().await;
    let (secret, _) = place.bugle.access().create(&key("shop")).await.unwrap();
    let keyrings = [Keyring::new(&place.node().await), Keyring::new(&place.node().await)];
    for keyring in &keyrings {
        assert!(keyring.find(&secret).await.unwrap().is_some());
    }
    assert!(place.bugle.access().revoke("shop").await.unwrap());
    assert!(!place.bugle.access().revoke("shop").await.unwrap(), "once");
    for keyring in &keyrings {
        until("it is refused", async || keyring.find(&secret).await.unwrap().is_none()).await;
    }
    place.bugle.access().create(&key("shop")).await.unwrap();
    assert!(keyrings[0].find(&secret).await.unwrap().is_none(), "the name is free, the secret is not");
}

/// The database's clock decides, and what a node remembers ends with the key.
#[tokio::test]
async fn an_expired_key_is_refused() {
    let place = Place::new().await;
    let (secret, row) =
        place.bugle.access().create(&key("brief").lifetime(Duration::from_hours(1))).await.unwrap();
    assert!(row.expires_at.is_some());
    place.execute("UPDATE bugle.api_key SET expires_at = clock_timestamp()").await;
    assert_eq!(Keyring::new(&place.bugle).find(&secret).await.unwrap(), None);
    assert_eq!(place.bugle.access().list().await.unwrap()[0].state, "expired");
    assert!(place.bugle.access().has_keys().await.unwrap(), "its end opens nothing");

    let (secret, _) =
        place.bugle.access().create(&key("briefer").lifetime(Duration::from_secs(2))).await.unwrap();
    let keyring = Keyring::new(&place.bugle);
    until("it is refused", async || keyring.find(&secret).await.unwrap().is_none()).await;
    let early = "SELECT clock_timestamp() < expires_at FROM bugle.api_key WHERE name = 'briefer'";
    assert!(!place.one::<bool>(early).await);
}

#[tokio::test]
async fn many_requests_with_one_key_are_one_statement() {
    let place = Place::new().await;
    let (secret, _) = place.bugle.access().create(&key("shop")).await.unwrap();
    let keyring = Keyring::new(&place.bugle);
    let grants = join_all((0..100).map(|_| keyring.find(&secret))).await;
    assert!(grants.into_iter().all(|grant| grant.unwrap().is_some()));
    assert_eq!(place.db.statements(&["FROM bugle.api_key k\nJOIN"]).await.unwrap(), 1);
}

#[tokio::test]
async fn the_last_use_of_a_key_is_noted_beside_the_request() {
    let place = Place::new().await;
    let (secret, row) = place.bugle.access().create(&key("shop")).await.unwrap();
    let used = async || place.bugle.access().list().await.unwrap()[0].used_at;
    assert_eq!(used().await, None);
    let keyring = Keyring::new(&place.bugle);
    // Somebody holds the row: whoever uses the key does not notice.
    let mut holder = place.began("SELECT FROM bugle.api_key FOR UPDATE").await;
    assert!(keyring.find(&secret).await.unwrap().is_some());
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    until("it is noted", async || used().await.is_some()).await;
    // However many nodes there are, and whatever each of them knows: once a minute.
    let note = include_str!("../../src/access/sql/note_use.sql");
    let noted = async || {
        let note = sqlx::query(place.db.sql(note).unwrap()).bind(vec![row.id]);
        note.execute(place.db.pool()).await.unwrap().rows_affected()
    };
    assert_eq!(noted().await, 0);
    place.execute("UPDATE bugle.api_key SET used_at = used_at - interval '1 minute'").await;
    assert_eq!(noted().await, 1);
}

#[tokio::test]
async fn a_key_belongs_to_its_namespace() {
    let place = Place::new().await;
    place.bugle.create_namespace(&bugle::name::NamespaceName::parse("staging").unwrap()).await.unwrap();
    let options = bugle::Options {
        schema: place.db.schema_name().unwrap(),
        namespace: bugle::name::NamespaceName::parse("staging").unwrap(),
        ..bugle::Options::default()
    };
    let staging = bugle::Bugle::new(place.db.pool().clone(), options).await.unwrap();
    let (secret, _) = staging.access().create(&key("shop")).await.unwrap();
    place.bugle.access().create(&key("shop")).await.unwrap();
    assert_eq!(place.bugle.access().list().await.unwrap().len(), 1);
    assert!(place.bugle.access().revoke("shop").await.unwrap());
    let grant = Keyring::new(&place.bugle).find(&secret).await.unwrap().unwrap();
    assert_eq!(grant.namespace, "staging", "only that of the same namespace was revoked");
}

#[tokio::test]
async fn a_key_for_nothing_or_of_a_name_that_is_taken_is_refused() {
    let place = Place::new().await;
    let error = place.bugle.access().create(&NewKey::new("idle").unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("has 0 scopes"), "{error}");
    place.bugle.access().create(&key("shop")).await.unwrap();
    let error = place.bugle.access().create(&key("shop")).await.unwrap_err();
    assert!(error.to_string().contains("API key \"shop\" already (Revoke it first"), "{error}");
}
