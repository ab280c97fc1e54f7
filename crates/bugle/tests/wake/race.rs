//! Real nodes held still in the middle of sitting down, while the world goes on.
use crate::fixture::{Place, soon, until};
use crate::node::{Waiter, counters, status};
use bugle::Bugle;
use bugle_testkit::proxy::{Direction, Fault, Proxy};
use bugle_wake::Why;
use sqlx::postgres::PgPoolOptions;

/// A node whose listener goes through a proxy.
async fn behind_proxy(p: &Place) -> (Bugle, Proxy) {
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    (p.node_with(|options| options.listener = Some(through)).await, proxy)
}

#[tokio::test]
async fn a_job_written_between_the_look_and_the_bell_is_found_by_the_second_look() {
    let p = Place::new().await;
    let (node, proxy) = behind_proxy(&p).await;
    let sitting = proxy.gate(".sit(");
    let waiter = Waiter::on(&node, "q").await;
    soon("it has looked and would sit", sitting.arrived()).await;
    let id = p.push().await; // nobody sleeps yet: nobody rings
    sitting.open();
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!((counters(&node).rings.get(), counters(&node).bells_taken.get()), (0, 1));
}

#[tokio::test]
async fn a_job_written_between_the_look_and_the_mark_is_found_by_the_second_look() {
    let p = Place::new().await;
    let (node, proxy) = behind_proxy(&p).await;
    let mut peer = p.sleeper().await;
    let sitting = proxy.gate(".sit(");
    let waiter = Waiter::on(&node, "q").await;
    soon("it has looked and would sit", sitting.arrived()).await;
    let id = p.push().await;
    assert_eq!(peer.sit(false).await, "bell");
    sitting.open();
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!((counters(&node).rings.get(), counters(&node).marks_taken.get()), (0, 1));
}

#[tokio::test]
async fn a_handover_that_comes_with_the_answer_makes_it_void() {
    let p = Place::new().await;
    let (node, proxy) = behind_proxy(&p).await;
    let mut peer = p.sleeper().await;
    assert_eq!(peer.sit(false).await, "bell");
    let sitting = proxy.gate(".sit(");
    let waiter = Waiter::on(&node, "q").await;
    soon("it would sit", sitting.arrived()).await;
    let stall = proxy.set(Fault::stall(Direction::ToClient));
    sitting.open();
    until("the server has marked it", async || p.seats().await == ["sentinel", "reserve"]).await;
    assert_eq!(peer.leave().await, 1); // behind the answer that says: a peer holds the bell
    stall.lift();
    p.until_sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
}

#[tokio::test]
async fn a_ring_during_the_look_is_not_wiped_by_it() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    // One connection, which has prepared the look already: what is stalled is the look's answer and nothing else.
    let through = proxy.rewrite(p.db.connect_options());
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect_with(through).await.unwrap();
    let direct = p.db.connect_options().clone();
    let node = p.node_on(pool, |options| options.listener = Some(direct)).await;
    let waiter = p.sentinel(&node).await;
    // The look's answer is on its way, empty; then a job comes and rings.
    let stall = proxy.set(Fault::stall(Direction::ToClient));
    p.execute("SELECT bugle.ring_queue('q')").await;
    soon("it has looked", stall.has_hit(1)).await;
    let rings = counters(&node).rings.get();
    let id = p.push().await;
    until("the ring is heard", async || counters(&node).rings.get() > rings).await;
    stall.lift();
    assert_eq!(waiter.job().await.id.0, id);
    // Two, because the first was over before the job came. Seldom one: its quick form left the case to the long one, which was asked after the stall.
    assert!((1..=2).contains(&counters(&node).looks_by(Why::Ring)));
}

#[tokio::test]
async fn a_consumer_that_comes_while_the_bell_is_being_left_is_served() {
    let p = Place::new().await;
    let (node, proxy) = behind_proxy(&p).await;
    let first = p.sentinel(&node).await;
    let leaving = proxy.gate(".leave(");
    drop(first);
    soon("it would leave", leaving.arrived()).await;
    let second = Waiter::on(&node, "q").await;
    until("it has looked", async || counters(&node).empty_looks.get() == counters(&node).looks.get()).await;
    leaving.open();
    until("it has left", async || counters(&node).seats_left.get() == 1).await;
    p.until_sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
    assert!(status(&node).listening);
}
