//! The listener's connection: what it confirms, and what happens when it breaks.
use crate::fixture::{Place, soon, until};
use crate::loss::calm;
use crate::node::{HOUR, Waiter, counters, status};
use bugle::jobs::Claimed;
use bugle::pg::embedded;
use bugle::{Bugle, Ctx, Options};
use bugle_testkit::postgres::TestServer;
use bugle_testkit::proxy::{Direction, Fault};
use bugle_wake::Why;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn nobody_sleeps_before_listen_is_confirmed() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let node = p.node_with(|options| options.listener = Some(through)).await;
    let listen = proxy.gate("LISTEN");
    let first = Waiter::on(&node, "q").await;
    soon("it would listen", listen.arrived()).await;
    until("it polls", async || counters(&node).looks_by(Why::Poll) > 1).await;
    assert!(!status(&node).listening);
    assert_eq!(p.seats().await, [""; 0], "who cannot hear must not hold the bell");
    let id = p.push().await;
    assert_eq!(first.job().await.id.0, id);
    listen.open();
    let second = p.sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(second.job().await.id.0, id);
    assert_eq!(counters(&node).rings.get(), 1);
}

#[tokio::test]
async fn a_connection_that_falls_silent_before_listen_is_given_up() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let node = p
        .node_with(|options| {
            options.listener = Some(through);
            options.wake.times.answer_within = Duration::from_millis(500);
        })
        .await;
    let listen = proxy.gate("LISTEN");
    let waiter = Waiter::on(&node, "q").await;
    soon("it tries again", listen.arrivals(2)).await; // the first was given up, the next try stands there as well
    listen.open();
    p.until_sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
}

#[tokio::test]
async fn a_listener_that_was_ended_comes_back_and_finds_what_came_meanwhile() {
    let p = Place::new().await;
    let node = p.node_with(calm).await;
    let waiter = p.sentinel(&node).await;
    p.kill_sentinels_session().await;
    let id = p.push().await; // nobody sleeps now: no ring
    assert_eq!(waiter.job().await.id.0, id);
    until("it is back", async || status(&node).listening).await;
    assert_eq!((counters(&node).connects.get(), counters(&node).disconnects.get()), (2, 1));
    assert!(counters(&node).alerts.get() >= 1);
    let waiter = p.sentinel(&node).await;
    until("it is calm", async || !status(&node).alert).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!(counters(&node).rings.get(), 1);
}

#[tokio::test]
async fn jobs_are_run_promptly_while_the_listener_is_ended_again_and_again() {
    let p = Place::new().await;
    let node = p.node().await;
    for _ in 0..5 {
        let waiter = Waiter::on(&node, "q").await;
        until("somebody sits", async || p.seats().await == ["sentinel"]).await;
        p.kill_sentinels_session().await;
        let id = p.push().await;
        assert_eq!(waiter.job().await.id.0, id);
        for _ in 0..5 {
            let waiter = Waiter::on(&node, "q").await;
            let id = p.push().await;
            assert_eq!(waiter.job().await.id.0, id);
        }
    }
    assert!(counters(&node).disconnects.get() >= 5);
}

#[tokio::test]
async fn a_half_open_listener_is_noticed_by_the_heartbeat() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let tune = |options: &mut Options| {
        options.listener = Some(through);
        options.wake.times.heartbeat = Duration::from_secs(1);
        options.wake.times.answer_within = Duration::from_millis(500);
    };
    let node = p.node_with(tune).await;
    let waiter = p.sentinel(&node).await;
    let hole = proxy.set(Fault::black_hole(Direction::Both).on(proxy.so_far()));
    let id = p.push().await; // rung for a node that cannot hear it
    assert_eq!(waiter.job().await.id.0, id);
    assert!(hole.hits() >= 1);
    until("it has a new connection", async || counters(&node).connects.get() >= 2).await;
    assert!(counters(&node).disconnects.get() >= 1);
    // The server still believed in the old session and its bell: the new one has ended it, or the node would be its own reserve.
    let waiter = p.sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert!(counters(&node).rings.get() >= 1);
}

#[tokio::test]
async fn work_whose_ring_was_lost_is_found_by_the_heartbeat_and_told_as_an_alarm() {
    let p = Place::new().await;
    let proxy = p.proxy().await;
    let through = proxy.rewrite(p.db.connect_options());
    let tune = |options: &mut Options| {
        options.listener = Some(through);
        options.wake.times.heartbeat = Duration::from_secs(1);
    };
    let node = p.node_with(tune).await;
    let waiter = p.sentinel(&node).await;
    let lost = proxy.set(Fault::drop_notifications());
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!(lost.hits(), 1);
    assert_eq!(counters(&node).rings.get(), 0);
    let again = Waiter::on(&node, "q").await;
    until("it is counted", async || counters(&node).fallback_hits.get() == 1).await;
    assert!(status(&node).alert && counters(&node).alerts.get() == 1);
    let id = p.push().await;
    assert_eq!(again.job().await.id.0, id);
}

#[tokio::test]
async fn garbage_on_the_channel_is_counted_and_ignored() {
    let p = Place::new().await;
    let node = p.node().await;
    let waiter = p.sentinel(&node).await;
    let (connects, looks) = (counters(&node).connects.get(), counters(&node).looks.get());
    let kinds = [
        "",
        ":",
        "h",
        "x",
        "129:h",
        "0:h",
        "1:2",
        "1:",
        "-1:1",
        "1:-63",
        "1:h ",
        "1:99999999999",
        "ü:ü",
        "{}",
    ];
    for kind in kinds {
        let sql = p.sql("SELECT pg_notify(bugle.bell_channel(), $1)");
        sqlx::query(sql).bind(kind).execute(p.db.pool()).await.unwrap();
    }
    p.execute("SELECT pg_notify(bugle.bell_channel(), repeat('z', 7000 + n % 900) || n) FROM generate_series(1, 500) AS n")
        .await;
    p.execute("SELECT pg_notify(bugle.bell_channel(), 'n' || n) FROM generate_series(1, 5000) AS n").await;
    let all = u64::try_from(kinds.len()).unwrap() + 5500;
    until("all are counted", async || counters(&node).garbage.get() == all).await;
    assert!(counters(&node).looks.get() <= looks + 1, "at most the second look was still to come");
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!(counters(&node).connects.get(), connects);
    assert_eq!(counters(&node).rings.get(), 1);
}

#[tokio::test]
async fn a_crash_of_the_server_is_survived() {
    let mut server = TestServer::with(embedded::Options::ephemeral()).await.unwrap();
    let mut options = Options::default();
    options.wake.times.heartbeat = HOUR;
    let node = Bugle::new(server.pool().unwrap(), options).await.unwrap();
    let waiter = Waiter::on(&node, "q").await;
    until("it sleeps", async || status(&node).seats.sentinel == [1]).await;
    server.crash().await.unwrap();
    until("it is noticed", async || !status(&node).listening).await;
    server.restart().await.unwrap();
    let producer = server.pool().unwrap();
    let enqueue = "SELECT bugle.enqueue('q', 'k')";
    let id: i64 = sqlx::query_scalar(enqueue).fetch_one(&producer).await.unwrap();
    assert_eq!(waiter.job().await.id.0, id);
    let waiter = Waiter::on(&node, "q").await;
    until("it sleeps again", async || status(&node).seats.sentinel == [1]).await;
    let id: i64 = sqlx::query_scalar(enqueue).fetch_one(&producer).await.unwrap();
    assert_eq!(waiter.job().await.id.0, id);
    node.node().unwrap().stop().await;
    drop((node, producer));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_listener_goes_its_own_way_when_it_is_given_an_address() {
    let p = Place::new().await;
    let (pools, listeners) = (p.proxy().await, p.proxy().await);
    let pool = sqlx::PgPool::connect_with(pools.rewrite(p.db.connect_options())).await.unwrap();
    let own = listeners.rewrite(p.db.connect_options());
    let node = p.node_on(pool, |options| options.listener = Some(own)).await;
    let not_here = pools.gate("LISTEN");
    let waiter = p.sentinel(&node).await;
    assert_eq!(listeners.opened(), 2, "the listener, and a moment before it somebody to look for a pooler");
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
    assert_eq!(not_here.waiting(), 0);
}

#[tokio::test]
async fn a_panic_in_the_listeners_task_is_counted_and_the_task_is_started_again() {
    let p = Place::new().await;
    let node = p
        .node_with(|options| {
            calm(options);
            options.wake.times.heartbeat = Duration::from_millis(300);
        })
        .await;
    let waiter = p.sentinel(&node).await;
    let panicked = Arc::new(AtomicBool::new(false));
    node.node().unwrap().on_heartbeat({
        let panicked = panicked.clone();
        move || assert!(panicked.swap(true, Ordering::Relaxed), "on purpose, in the listener's task")
    });
    until("it panicked", async || counters(&node).panics.get() == 1).await;
    until("it listens again", async || counters(&node).connects.get() == 2).await;
    assert!(counters(&node).alerts.get() >= 1, "meanwhile it looked by itself");
    p.until_sentinel(&node).await;
    let id = p.push().await;
    assert_eq!(waiter.job().await.id.0, id);
}

#[tokio::test]
async fn a_worker_runs_everything_while_its_listener_dies_every_now_and_then() {
    let p = Place::new().await;
    let node = p.node().await;
    let (done, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let worker = node.worker("q").handle_any({
        let done = done.clone();
        move |_: Claimed, _: Ctx| {
            done.fetch_add(1, Ordering::Relaxed);
            async {}
        }
    });
    let running = tokio::spawn(worker.run(stop.clone()));
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM bugle.seat) AS s";
    for n in 1..=60 {
        p.push().await;
        if n % 12 == 0 {
            p.one::<i64>(kill).await;
        }
        if n % 5 == 0 {
            until("all so far are done", async || done.load(Ordering::Relaxed) == n).await;
        }
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
