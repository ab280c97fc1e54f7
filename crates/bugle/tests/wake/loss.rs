//! Nodes that lose their session or their life while others rely on them: rules 8, 11 and 12.
use crate::fixture::{LEASE, Place, soon, until};
use crate::node::{HOUR, Waiter, counters, status};
use bugle::Options;
use bugle_testkit::postgres::{Backend, terminate_backend};
use bugle_testkit::proxy::{Cut, Direction, Fault, Proxy};
use sqlx::postgres::PgPoolOptions;
use std::time::Duration;

impl Place {
    /// A proxy in front of the server.
    pub(crate) async fn proxy(&self) -> Proxy {
        let options = self.db.connect_options();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap();
        Proxy::start(server.into_iter().next().unwrap()).await.unwrap()
    }

    pub(crate) async fn kill_sentinels_session(&self) {
        let pid = self.sentinels_session().await;
        terminate_backend(self.db.connect_options(), Backend::Pid(pid)).await.unwrap();
    }
}

/// Alerts end at once, so that their fast looks hide nothing.
pub(crate) fn calm(options: &mut Options) {
    options.wake.times.alert_minimum = Duration::from_millis(1);
    options.wake.alert_empty_looks = 1;
}

#[tokio::test]
async fn a_bell_lost_with_its_session_is_rung_for_when_the_node_is_back() {
    let p = Place::new().await;
    // It keeps what it holds for an hour after its last consumer: when it is back, it wants nothing and sits nowhere.
    let one = p.node_with(|options| options.wake.times.linger = HOUR).await;
    let two = p.node().await;
    let (first, second) = (p.sentinel(&one).await, p.reserve(&two).await);
    drop(first);
    until("nobody waits there", async || status(&one).intentions == 0).await;
    assert_eq!(status(&one).seats.sentinel, [p.bucket]);
    p.kill_sentinels_session().await;
    p.until_sentinel(&two).await; // told by the first: its own heartbeat is an hour away
    assert_eq!(counters(&one).handovers_sent.get(), 1);
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
}

#[tokio::test]
async fn a_handover_that_could_not_be_rung_is_rung_after_the_reconnect() {
    for fault in [Fault::cut_before_forward(".leave("), Fault::cut_after_answer(".leave(")] {
        let p = Place::new().await;
        let proxy = p.proxy().await;
        let through = proxy.rewrite(p.db.connect_options());
        let one = p.node_with(|options| options.listener = Some(through)).await;
        let two = p.node().await;
        let (first, second) = (p.sentinel(&one).await, p.reserve(&two).await);
        let cut = proxy.set(fault.next(1));
        drop(first);
        soon("the handover is cut off", cut.has_hit(1)).await;
        p.until_sentinel(&two).await;
        let id = p.push().await;
        assert_eq!(second.job().await.id.0, id);
        until("it is back", async || counters(&one).connects.get() == 2).await;
    }
}

/// It has lost its bell with its session, and is stopped before it is back.
#[tokio::test]
async fn a_node_that_is_stopped_while_it_reconnects_rings_what_it_owes() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let one = p.node_with(|options| options.listener = Some(through)).await;
    let two = p.node().await;
    let (_first, second) = (p.sentinel(&one).await, p.reserve(&two).await);
    let cut = proxy.set(Fault::cut(Cut::Reset)); // now and whenever it comes back
    soon("it tries in vain", cut.has_hit(4)).await;
    assert_eq!(counters(&one).handovers_sent.get(), 0);
    cut.lift();
    soon("it has stopped", one.node().unwrap().stop()).await;
    p.until_sentinel(&two).await; // told by the first: its own heartbeat is an hour away
    assert_eq!(
        (counters(&one).handovers_sent.get(), counters(&one).connects.get()),
        (1, 1),
        "on a connection for that alone"
    );
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
}

#[tokio::test]
async fn a_node_that_owes_a_ring_and_cannot_reach_the_database_stops_in_time() {
    for fault in [Fault::cut(Cut::Reset), Fault::black_hole(Direction::Both)] {
        let p = Place::new().await;
        let proxy = p.proxy().await;
        let through = proxy.rewrite(p.db.connect_options());
        let one = p
            .node_with(|options| {
                options.listener = Some(through);
                options.wake.times.answer_within = Duration::from_secs(1);
                options.wake.times.heartbeat = Duration::from_millis(300);
            })
            .await;
        let _first = p.sentinel(&one).await;
        let broken = proxy.set(fault);
        until("it has noticed", async || counters(&one).disconnects.get() == 1).await;
        soon("it has stopped", one.node().unwrap().stop()).await;
        broken.lift();
    }
}

#[tokio::test]
async fn both_nodes_are_served_after_the_sentinel_lost_its_session() {
    let p = Place::new().await;
    let (one, two) = (p.node_with(calm).await, p.node().await);
    let mut waiters = vec![p.sentinel(&one).await, p.reserve(&two).await];
    p.kill_sentinels_session().await;
    until("it is back and calm", async || {
        counters(&one).connects.get() == 2 && !status(&one).alert && status(&one).listening
    })
    .await;
    until("both sleep", async || p.seats().await == ["sentinel", "reserve"]).await;
    while !waiters.is_empty() {
        let id = p.push().await;
        assert_eq!(crate::node::winner(&mut waiters).await.1.id.0, id);
    }
}

#[tokio::test]
async fn a_sentinel_that_dies_costs_its_peers_at_most_a_heartbeat() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .acquire_timeout(Duration::from_secs(1))
        .connect_with(through)
        .await
        .unwrap();
    let one = p.node_on(pool, |_| {}).await; // with all of its connections through the proxy
    let heartbeat = |options: &mut Options| options.wake.times.heartbeat = Duration::from_secs(1);
    let (two, three) = (p.node_with(heartbeat).await, p.node_with(heartbeat).await);
    let _first = p.sentinel(&one).await;
    let mut rest = vec![Waiter::on(&two, "q").await, Waiter::on(&three, "q").await];
    until("all sleep", async || p.seats().await == ["sentinel", "reserve", "reserve"]).await;
    let cut = proxy.set(Fault::cut(Cut::Reset)); // now and whenever it comes back
    soon("it is cut off", cut.has_hit(1)).await;
    for _ in 0..2 {
        let id = p.push().await;
        assert_eq!(crate::node::winner(&mut rest).await.1.id.0, id);
    }
}

#[tokio::test]
async fn a_node_that_stops_does_not_sit_again_although_a_look_ends_meanwhile() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let pool = PgPoolOptions::new().connect_with(proxy.rewrite(p.db.connect_options())).await.unwrap();
    let (one, two) = (p.node_on(pool, |_| {}).await, p.node().await);
    // A consumer whose task does not run meanwhile: it goes on wanting.
    let queue = one.queue("q").await.unwrap();
    let mut first = Box::pin(queue.claim_within("w", 1, LEASE, HOUR));
    assert!(futures_util::poll!(&mut first).is_pending());
    p.until_second_look(&one).await;
    let second = p.reserve(&two).await;
    let (looking, leaving) = (proxy.gate("single ask"), proxy.gate(".leave("));
    p.execute("SELECT bugle.enqueue('q', 'k', delay => '1 hour')").await;
    soon("it looks", looking.arrived()).await;
    let empty_looks = counters(&one).empty_looks.get();
    let stop = one.node().unwrap().stop();
    let meanwhile = async {
        leaving.arrived().await;
        looking.open();
        until("the look is over", async || counters(&one).empty_looks.get() > empty_looks).await;
        leaving.open();
    };
    soon("it has stopped", async { tokio::join!(stop, meanwhile) }).await;
    let seats = counters(&one).bells_taken.get() + counters(&one).marks_taken.get();
    assert_eq!(seats, 1, "a bell that goes with the session is handed to nobody");
    p.until_sentinel(&two).await;
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
}
