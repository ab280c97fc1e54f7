//! Several processes on one folder. (Locks of files are of the open file, so that one process can play them all.)

use super::{ask, connect, home};
use bugle::pg::embedded::{Embedded, Guest, Options, Server, Stay};
use sqlx::Connection as _;
use std::path::Path;
use std::time::Duration;

async fn open(dir: &Path, stay: Stay) -> Embedded {
    Server::start_or_join(Options::at(dir), stay).await.unwrap()
}

async fn owned(dir: &Path, stay: Stay) -> Server {
    match open(dir, stay).await {
        Embedded::Owned(server) => server,
        Embedded::Guest(guest) => panic!("is a guest: {guest:?}"),
    }
}

async fn guest(dir: &Path, stay: Stay) -> Guest {
    match open(dir, stay).await {
        Embedded::Guest(guest) => guest,
        Embedded::Owned(server) => panic!("owns it: {server:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_second_joins_the_first() {
    let home = home();
    let dir = home.path().join("pg");
    let server = owned(&dir, Stay::Long).await;
    for stay in [Stay::Brief, Stay::Long] {
        let guest = guest(&dir, stay).await;
        assert_eq!(guest.url(), server.url());
        assert_eq!(guest.owner_pid(), std::process::id().to_string());
        connect(&guest.url()).await.close().await.unwrap();
        let mut session = sqlx::PgConnection::connect_with(&guest.connect_options()).await.unwrap();
        session.ping().await.unwrap();
        assert!(!guest.is_gone());
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_lets_its_guests_finish_and_a_late_one_begins_anew() {
    let home = home();
    let dir = home.path().join("pg");
    let mut server = owned(&dir, Stay::Brief).await;
    let first = guest(&dir, Stay::Brief).await;
    assert!(!server.wait_for_guests(Duration::from_millis(50)).await.unwrap());
    let leaving = tokio::spawn({
        let guest = first;
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await; // the owner is waiting by now, or will find nobody
            drop(guest);
        }
    });
    assert!(server.wait_for_guests(Duration::from_secs(30)).await.unwrap());
    leaving.await.unwrap();
    let late = tokio::spawn({
        let dir = dir.clone();
        async move { owned(&dir, Stay::Brief).await }
    });
    server.stop().await.unwrap();
    let next = late.await.unwrap();
    assert_eq!(ask(&next, "SELECT 'alive'").await, "alive");
    next.stop().await.unwrap();
}

/// Whoever waits for what a worker does must not keep the worker out.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_only_waits_makes_way_for_one_that_stays_and_joins_it() {
    let home = home();
    let dir = home.path().join("pg");
    let waiting = open(&dir, Stay::Waiting).await;
    assert!(!waiting.is_to_be_left().unwrap());
    let staying = tokio::spawn({
        let dir = dir.clone();
        async move { owned(&dir, Stay::Long).await }
    });
    while !waiting.is_to_be_left().unwrap() {
        tokio::task::yield_now().await; // somebody comes who stays
    }
    let Embedded::Owned(server) = waiting else { panic!("is a guest: {waiting:?}") };
    server.stop().await.unwrap();
    // He who has made way does not take it again while the other one is still starting.
    let again = Embedded::Guest(guest(&dir, Stay::Waiting).await);
    let server = staying.await.unwrap();
    assert!(!again.is_to_be_left().unwrap());
    server.stop().await.unwrap();
    assert!(again.is_to_be_left().unwrap(), "the server has ended");
    drop(again);
    owned(&dir, Stay::Waiting).await.stop().await.unwrap(); // nobody stays any more
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stays_waits_for_a_brief_owner_instead_of_joining_it() {
    let home = home();
    let dir = home.path().join("pg");
    let brief = owned(&dir, Stay::Brief).await;
    let staying = tokio::spawn({
        let dir = dir.clone();
        async move { owned(&dir, Stay::Long).await }
    });
    let guest = guest(&dir, Stay::Brief).await;
    brief.stop().await.unwrap();
    assert!(guest.is_gone());
    drop(guest);
    let server = staying.await.unwrap();
    assert_eq!(ask(&server, "SELECT 'alive'").await, "alive");
    server.stop().await.unwrap();
}
