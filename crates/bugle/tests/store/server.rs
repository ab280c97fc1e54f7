//! Which servers Bugle works on.
use bugle::Outcome;
use bugle::pg::connect::{Options, pool};
use bugle::pg::embedded;
use bugle_testkit::postgres::{TestDb, TestServer};

#[tokio::test]
async fn a_server_that_may_lose_commits_is_refused() {
    let server = TestServer::with(embedded::Options::ephemeral().setting("fsync", "off")).await.unwrap();
    let mut options = Options::parse(&server.url().unwrap()).unwrap();
    let error = pool(&options).await.unwrap_err().to_string();
    assert!(error.contains("fsync = off") && error.contains("--allow-unsafe-database"), "{error}");
    options.allow_unsafe = true;
    pool(&options).await.unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_that_does_not_wait_for_the_disk_is_refused() {
    let db = TestDb::schema().await.unwrap();
    let lax = Options::from(db.connect_options().clone().options([("synchronous_commit", "off")]));
    let error = pool(&lax).await.unwrap_err().to_string();
    assert!(error.contains("synchronous_commit = off"), "{error}");
    pool(&Options::from(db.connect_options().clone())).await.unwrap();
}

#[tokio::test]
async fn a_wrong_address_is_told_at_once() {
    let error = Options::parse("not an address").unwrap_err();
    assert!(error.to_string().contains("postgres://"), "{error}");
    let mut options = Options::parse("postgres://nobody:secret@127.0.0.1:1/none").unwrap();
    options.acquire_timeout = std::time::Duration::from_secs(2);
    let error = pool(&options).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Refused);
    assert!(error.to_string().contains("no connection to the database"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
