//! Ends that come at the worst moment, each forced.
use crate::ends::{told, wait_for};
use crate::fixture::{HOUR, Place, node, until};
use bugle_testkit::proxy::{Direction, Fault};
use sqlx::PgConnection;

/// An ack of one job in an open transaction.
async fn ack_in(place: &Place, session: &mut PgConnection) {
    let held = place.claim("q", 1).await;
    let (receipt, number) = (held.jobs[0].receipt, place.number("q").await);
    let (id, x, token) = (receipt.id().0, receipt.row(), receipt.token());
    let ack = format!("BEGIN; SELECT bugle.ack_in({}, 2::smallint, {x}, {id}, {token}, '{id}')", number.0);
    sqlx::raw_sql(place.db.sql(&ack).unwrap()).execute(session).await.unwrap();
}

#[tokio::test]
async fn a_job_that_ends_between_the_search_for_its_queue_and_the_intention_is_told() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let direct = place.db.connect_options();
    let bugle = place.node_on(&proxy.rewrite(direct), Some(direct.clone()), |_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let held = place.claim("q", 1).await;
    let gate = proxy.gate("j.attempt > 0");
    let wait = wait_for(&bugle, id);
    gate.arrived().await;
    let slow = proxy.set(Fault::stall(Direction::ToClient));
    let before: String = place.one("SELECT clock_timestamp()::text").await;
    gate.open();
    slow.has_hit(1).await;
    // By what its session did last, not by the statistics: PostgreSQL 18 does not always count it there.
    let answered = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND state_change > '{before}'
            AND query LIKE '-- The number of the queue%' AND position('FROM bugle.history h' in query) > 0"
    );
    until("PostgreSQL has answered", async || place.one::<i64>(&answered).await == 1).await;
    place.end("q", held).await;
    slow.lift();
    assert_eq!(told(wait).await, id);
}

#[tokio::test]
async fn a_job_that_ends_after_the_look_and_before_the_bell_is_told() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let bugle = place.node_with(Some(proxy.rewrite(place.db.connect_options())), |_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let held = place.claim("q", 1).await;
    let gate = proxy.gate(".sit(");
    let wait = wait_for(&bugle, id);
    gate.arrived().await; // it has looked and found nothing
    assert!(place.end_looks().await > 0);
    place.end("q", held).await;
    assert_eq!(node(&bugle).counters().rings.get(), 0, "nobody was there to be rung for");
    gate.open();
    assert_eq!(told(wait).await, id);
}

#[tokio::test]
async fn an_end_in_a_transaction_that_was_open_during_a_look_is_told_when_it_commits() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let ids = place.enqueue("q", 2).await;
    let (mut late, mut session) = (place.session().await, place.session().await);
    let wait = wait_for(&bugle, ids[0]);
    place.asleep(&bugle, 1).await;
    ack_in(&place, &mut late).await;
    ack_in(&place, &mut session).await; // a later transaction, which ends first
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
    until("it has looked meanwhile", async || node(&bugle).counters().rings.get() == 1).await;
    place.quiet(&bugle).await;
    assert!(!wait.is_finished(), "it has not ended yet");
    sqlx::raw_sql("COMMIT").execute(&mut late).await.unwrap();
    assert_eq!(told(wait).await, ids[0]);
}

#[tokio::test]
async fn an_end_that_is_rolled_back_is_none() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let mut session = place.session().await;
    let wait = wait_for(&bugle, id);
    place.asleep(&bugle, 1).await;
    ack_in(&place, &mut session).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
    place.execute("SELECT bugle.ring_queue('q')").await;
    place.quiet(&bugle).await;
    assert!(!wait.is_finished());
    let sql = "UPDATE bugle.lease SET until = clock_timestamp(); SELECT bugle.sweep(queue) FROM bugle.lease";
    place.execute(sql).await;
    let held = place.claim("q", 1).await;
    place.end("q", held).await;
    assert_eq!(told(wait).await, id);
}

#[tokio::test]
async fn an_end_while_the_listener_is_away_is_told_when_it_is_back() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    // On alert it would look at short intervals, and would have found it by accident.
    let tune = |options: &mut bugle_wake::Options| options.times.alert_interval = HOUR;
    let bugle = place.node_with(Some(proxy.rewrite(place.db.connect_options())), tune).await;
    let id = place.enqueue("q", 1).await[0];
    let held = place.claim("q", 1).await;
    let wait = wait_for(&bugle, id);
    place.asleep(&bugle, 1).await;
    let gate = proxy.gate("LISTEN");
    assert_eq!(place.end_listeners().await, 1);
    gate.arrived().await;
    place.end("q", held).await;
    gate.open();
    assert_eq!(told(wait).await, id);
}

#[tokio::test]
async fn an_end_while_the_session_of_the_looks_is_lost_is_told() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let id = place.enqueue("q", 1).await[0];
    let held = place.claim("q", 1).await;
    let wait = wait_for(&bugle, id);
    place.asleep(&bugle, 1).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%look_ends%'";
    let ended: i64 =
        sqlx::query_scalar(end).bind(place.node_name()).fetch_one(place.db.pool()).await.unwrap();
    assert_eq!(ended, 1);
    place.end("q", held).await;
    assert_eq!(told(wait).await, id);
    assert!(node(&bugle).counters().failed_looks.get() > 0);
}
