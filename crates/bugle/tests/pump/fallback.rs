//! The heartbeat finds work: an alarm when a ring was missed, and only then.
use crate::fixture::{HOUR, Place, Running, SOON, node, raw, until};
use bugle::Bugle;
use bugle_testkit::proxy::{Fault, Proxy};
use bugle_wake::{Options, Why};
use std::time::{Duration, Instant};

fn beating(options: &mut Options) {
    options.times.heartbeat = Duration::from_secs(2);
    options.times.alert_minimum = Duration::from_millis(300);
    options.times.alert_interval = Duration::from_millis(20);
}

async fn through(place: &Place, proxy: &Proxy, tune: impl FnOnce(&mut Options)) -> Bugle {
    place.node_with(Some(proxy.rewrite(place.db.connect_options())), tune).await
}

/// The ring of a job does not arrive anywhere.
async fn lose_a_ring(place: &Place, proxy: &Proxy, listeners: u64) {
    let lost = proxy.set(Fault::drop_notifications());
    place.enqueue("q", 1).await;
    lost.has_hit(listeners).await;
    lost.lift();
}

async fn one_alarm(bugle: &Bugle) {
    let counters = node(bugle).counters();
    until("it is an alarm", async || counters.fallback_hits.get() == 1 && counters.alerts.get() == 1).await;
}

#[tokio::test]
async fn work_whose_ring_was_lost_is_found_by_the_heartbeat_and_is_an_alarm() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let bugle = through(&place, &proxy, beating).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    lose_a_ring(&place, &proxy, 1).await;
    worker.next().await;
    one_alarm(&bugle).await;
    until("the alert is over", async || !node(&bugle).status().alert).await;
    assert_eq!(node(&bugle).counters().looks_by(Why::Ring), 0);
    worker.stop().await;
}

#[tokio::test]
async fn it_is_an_alarm_also_when_the_consumer_has_gone_meanwhile() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let bugle = through(&place, &proxy, beating).await;
    let queue = bugle.queue("q").await.unwrap();
    let claim = tokio::spawn(async move { queue.claim_within("w", 1, HOUR, HOUR).await });
    place.asleep(&bugle, 1).await;
    lose_a_ring(&place, &proxy, 1).await;
    tokio::time::timeout(SOON, claim).await.unwrap().unwrap().unwrap().unwrap();
    one_alarm(&bugle).await;
}

#[tokio::test]
async fn it_is_an_alarm_on_a_reserve_as_well() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let sentinel = through(&place, &proxy, |_| {}).await;
    let idle = Running::on(&sentinel, "q");
    place.asleep(&sentinel, 1).await;
    let bugle = through(&place, &proxy, beating).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    assert_eq!(place.seats().await, (1, 1));
    lose_a_ring(&place, &proxy, 2).await;
    worker.next().await;
    one_alarm(&bugle).await;
    worker.stop().await;
    idle.stop().await;
}

/// Jobs come for a while; some of them are found by heartbeats.
async fn flow(place: &Place, bugle: &Bugle, worker: &mut Running, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        place.outside.enqueue_raw("q", "k", raw("1")).send().await.unwrap();
        worker.next().await;
    }
    // An alarm comes half a second after the find.
    let beats = node(bugle).counters().heartbeats.get();
    until("the heart beats", async || node(bugle).counters().heartbeats.get() > beats + 3).await;
}

#[tokio::test]
async fn a_heartbeat_that_finds_work_for_a_node_that_is_awake_is_no_alarm() {
    let place = Place::new().await;
    let bugle = place
        .node(|options| {
            options.times.heartbeat = Duration::from_millis(250);
            // Awake from the second fast ring on: nobody rings for it, and it looks so rarely that the heartbeat is often first.
            options.fast_rings = 2;
            options.times.linger = Duration::from_secs(2);
            options.times.linger_poll = Duration::from_millis(600);
            options.times.linger_poll_max = Duration::from_millis(600);
        })
        .await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let counters = node(&bugle).counters();
    until("it is awake", async || {
        // At once: one must come while it is still busy with the other.
        futures_util::future::join_all((0..8).map(|_| place.enqueue("q", 1))).await;
        counters.seats_left.get() > 0
    })
    .await;
    flow(&place, &bugle, &mut worker, Duration::from_secs(3)).await;
    assert_eq!((counters.fallback_hits.get(), counters.alerts.get()), (0, 0));
    worker.stop().await;
}

#[tokio::test]
async fn a_heartbeat_that_finds_work_for_a_node_that_cannot_listen_is_no_alarm() {
    let place = Place::new().await;
    let bugle = place
        .node(|options| {
            options.listen = false;
            options.times.heartbeat = Duration::from_millis(250);
            let often = Duration::from_millis(800);
            (options.times.poll_busy, options.times.poll_quiet, options.times.poll_idle) =
                (often, often, often);
        })
        .await;
    let mut worker = Running::on(&bugle, "q");
    until("it looks", async || bugle.node().is_some_and(|n| n.counters().looks.get() > 1)).await;
    flow(&place, &bugle, &mut worker, Duration::from_secs(3)).await;
    let counters = node(&bugle).counters();
    assert_eq!((counters.fallback_hits.get(), counters.alerts.get()), (0, 0));
    worker.stop().await;
}

#[tokio::test]
async fn a_heartbeat_that_finds_what_has_just_become_due_is_no_alarm() {
    let place = Place::new().await;
    let bugle = place.node(|options| options.times.heartbeat = Duration::from_millis(100)).await;
    let mut worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    // Something becomes due all the time, for three seconds.
    let sql = "SELECT bugle.enqueue('q', 'k', delay => n * interval '6 milliseconds') FROM generate_series(1, 500) AS n";
    place.execute(sql).await;
    for _ in 0..500 {
        worker.next().await;
    }
    let counters = node(&bugle).counters();
    let beats = counters.heartbeats.get();
    until("an alarm would be told", async || counters.heartbeats.get() > beats + 8).await;
    assert_eq!((counters.fallback_hits.get(), counters.alerts.get()), (0, 0));
    worker.stop().await;
}
