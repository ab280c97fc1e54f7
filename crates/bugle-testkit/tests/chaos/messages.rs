//! The broker under the same faults: rows 1, 2, 3, 4, 6, 18 and 19 with partitions and consumer groups, and the broker broken on purpose.
use crate::broken::breaks;
use crate::connections::{NAME, full, take_all};
use crate::crash_points::all_die;
use crate::place::{NODE, Nodes, again_and_again, demand, message_run, own_run, replace};
use crate::server::{SLOW_FLUSH, kill_some_backend};
use bugle::crash;
use bugle_testkit::chaos::broken::Break;
use bugle_testkit::chaos::{Role, Run, seconds};
use bugle_testkit::checker::Rule;
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::TestDb;
use sqlx::{Connection as _, PgConnection};
use std::time::Duration;

/// A lease that does not end here.
const LONG: Duration = Duration::from_mins(10);

#[tokio::test]
async fn row_1_killed_pushers_and_poppers_lose_no_message() {
    let (db, mut run) = message_run().await;
    let mut nodes = Nodes::start_messages(&mut run, db.url(), 2, 3);
    // Some twenty kills: not every one of them comes between a call and its answer.
    nodes.kill_in_turn(&mut run, db.url(), (Role::Pusher, Role::Popper), seconds(8)).await;
    let report = run.finish_messages(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::Killed, 3, 1);
    assert!(report.counts.redeliveries > 0, "no message of a dead consumer came back");
}

#[tokio::test]
async fn row_2_dying_at_any_crash_point_loses_no_message() {
    let (db, mut run) = message_run().await;
    let nodes = Nodes::start_messages(&mut run, db.url(), 1, 1);
    let nemesis = run.nemesis();
    let role = |point: &str| if point.starts_with("push") { Role::Pusher } else { Role::Popper };
    let dying = crash::MESSAGE_POINTS.iter().map(|point| (*point, role(point)));
    all_die(&mut run, db.url(), &nemesis, dying).await;
    let report = run.finish_messages(nodes.producers, nodes.workers).await.unwrap();
    report.demand(1, 1).unwrap();
}

#[tokio::test]
async fn row_3_a_thousand_waiting_pops_die_and_others_get_what_they_held() {
    let (db, mut run) = message_run().await;
    let nemesis = run.nemesis();
    let mut crowds: Vec<_> = (0..2).map(|_| run.node(Role::PoppingCrowd, db.url()).unwrap()).collect();
    let producers = (0..2).map(|_| run.node(Role::Pusher, db.url()).unwrap()).collect();
    again_and_again(seconds(3), Duration::from_millis(900), async || {
        replace(&mut run, &nemesis, &mut crowds, Role::PoppingCrowd, db.url());
    })
    .await;
    let report = run.finish_messages(producers, crowds).await.unwrap();
    demand(&report, &FaultKind::Killed, 2, 1);
}

#[tokio::test]
async fn row_4_a_consumer_that_wakes_after_its_lease_is_refused() {
    let (db, mut run) = message_run().await;
    let mut nodes = Nodes::start_messages(&mut run, db.url(), 2, 3);
    let nemesis = run.nemesis();
    nodes.pause_in_turn(&nemesis, seconds(3)).await;
    let report = run.finish_messages(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::Paused, 1, 0);
    assert!(report.counts.redeliveries > 0);
}

#[tokio::test]
async fn row_6_a_killed_backend_takes_all_connections_and_no_message_is_lost() {
    let (server, mut run) = own_run(&[]).await;
    run.prepare_messages().await.unwrap();
    let pool = server.pool().unwrap();
    server.slow_flush(SLOW_FLUSH).await.unwrap();
    let nodes = Nodes::start_messages(&mut run, &server.url().unwrap(), 2, 3);
    let nemesis = run.nemesis();
    again_and_again(seconds(8), Duration::from_millis(1_500), async || {
        kill_some_backend(&server, &pool, &nemesis).await;
    })
    .await;
    let report = run.finish_messages(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::BackendKilled, 1, 1);
    server.stop().await.unwrap();
}

/// The leases do not end here: what was claimed for somebody who is gone comes again because it is given back, or never. And it was no try.
#[tokio::test]
async fn row_18_what_is_claimed_for_a_consumer_that_goes_away_is_given_back_at_once() {
    let db = TestDb::schema().await.unwrap();
    let mut run = Run::new(db.bugle().await.unwrap(), NODE, LONG).unwrap();
    run.prepare_messages().await.unwrap();
    let producers = (0..2).map(|_| run.node(Role::Pusher, db.url()).unwrap()).collect();
    let crowds = (0..2).map(|_| run.node(Role::FickleCrowd, db.url()).unwrap()).collect();
    tokio::time::sleep(seconds(3)).await;
    let report = run.finish_messages(producers, crowds).await.unwrap();
    report.demand(0, 100).unwrap(); // every one that went away is an unknown answer
    assert!(report.counts.hand_outs > 100, "too little happened to prove anything");
    let tries = db.sql("SELECT max(tries) FROM bugle.group_cursor").unwrap();
    assert_eq!(sqlx::query_scalar::<_, i32>(tries).fetch_one(db.pool()).await.unwrap(), 0, "it was no try");
}

#[tokio::test]
async fn row_19_without_a_connection_no_message_is_lost() {
    let (server, mut run) = own_run(&[("max_connections", "50")]).await;
    run.prepare_messages().await.unwrap();
    let options = server.connect_options().unwrap();
    let url = format!("{}?application_name={NAME}", server.url().unwrap());
    let nodes = Nodes::start_messages(&mut run, &url, 2, 3);
    let mut admin = PgConnection::connect_with(&options).await.unwrap();
    let nemesis = run.nemesis();
    again_and_again(seconds(3), Duration::from_millis(800), async || {
        let window = nemesis.fault(full(), None).unwrap();
        let taken = take_all(&mut admin, &options).await;
        drop(taken);
        window.end().unwrap();
    })
    .await;
    let report = run.finish_messages(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &full(), 1, 0); // to take all sessions of a server takes its time
    server.stop().await.unwrap();
}

/// Some seconds of ordinary work.
async fn work(safety: Break) -> Vec<Rule> {
    let (db, mut run) = message_run().await;
    safety.apply(&run.bugle).await.unwrap();
    run.expect_red(Duration::from_secs(2));
    let nodes = Nodes::start_messages(&mut run, db.url(), 3, 4);
    tokio::time::sleep(Duration::from_millis(1800)).await;
    run.finish_messages(nodes.producers, nodes.workers).await.unwrap().broken_rules()
}

breaks! {
    work;
    a_verdict_without_its_token_is_found: SETTLE_WITHOUT_TOKEN => M5;
    a_pop_that_ignores_leases_is_found: POP_WHATEVER_IS_LEASED => M4;
    a_release_that_goes_back_is_found: RELEASE_THAT_GOES_BACK => M6;
    an_ack_past_its_claim_is_found: ACK_PAST_ITS_CLAIM => M1;
    numbers_without_the_lock_are_found: NUMBERS_WITHOUT_THE_LOCK => M1 | M2;
}
