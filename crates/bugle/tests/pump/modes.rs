//! How the waiters of a queue are woken, and switching it while they wait.
use crate::fixture::{Place, Running, node, raw, until};
use bugle::{Bugle, Mode};
use bugle_testkit::proxy::{Cut, Fault};
use bugle_wake::Why;
use sqlx::postgres::PgListener;
use std::collections::HashSet;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(150);

async fn knows(place: &Place, bugle: &Bugle, queue: &str, mode: Mode) {
    let number = place.number(queue).await;
    until("the node knows the mode", async || {
        bugle.node().is_some_and(|node| node.status().listening && node.mode_of(number) == mode)
    })
    .await;
}

/// A node with one worker in this mode.
async fn one_in(place: &Place, mode: Mode, poll: Duration) -> (Bugle, Running) {
    place.outside.set_mode("q", mode, Some(poll)).await.unwrap();
    let bugle = place.node(|options| options.times.heartbeat = Duration::from_millis(200)).await;
    let worker = Running::on(&bugle, "q");
    knows(place, &bugle, "q", mode).await;
    (bugle, worker)
}

#[tokio::test]
async fn polling_only_holds_nothing_is_not_rung_for_and_is_served_at_its_interval() {
    let place = Place::new().await;
    let (bugle, mut worker) = one_in(&place, Mode::PollingOnly, POLL).await;
    until("no seat is held", async || place.seats().await == (0, 0)).await;
    let channel: String = place.one("SELECT bugle.bell_channel()").await;
    let mut ear = PgListener::connect_with(place.db.pool()).await.unwrap();
    ear.listen(&channel).await.unwrap();

    for _ in 0..3 {
        let id = place.enqueue("q", 1).await[0];
        assert_eq!(worker.next().await.id, id);
    }
    sqlx::query("SELECT pg_notify($1, 'the end')").bind(&channel).execute(place.db.pool()).await.unwrap();
    assert_eq!(ear.recv().await.unwrap().payload(), "the end", "nothing was rung before");
    assert_eq!(place.seats().await, (0, 0));
    let counters = node(&bugle).counters();
    assert!(counters.looks_by(Why::Poll) > 0);
    assert_eq!(
        (counters.rings.get(), counters.looks_by(Why::Ring), counters.looks_by(Why::Heartbeat)),
        (0, 0, 0)
    );
    worker.stop().await;
}

#[tokio::test]
async fn the_interval_of_a_queue_is_kept() {
    let place = Place::new().await;
    let (bugle, worker) = one_in(&place, Mode::PollingOnly, Duration::from_hours(1)).await;
    place.quiet(&bugle).await;
    let counters = node(&bugle).counters();
    let looks = || [Why::Poll, Why::Heartbeat, Why::Ring].map(|why| counters.looks_by(why));
    let (heartbeats, before) = (counters.heartbeats.get(), looks());
    place.enqueue("q", 1).await;
    until("the heart beats", async || counters.heartbeats.get() > heartbeats + 3).await;
    assert_eq!(looks(), before, "it looks again in an hour");
    place.outside.set_mode("q", Mode::PollingOnly, Some(POLL)).await.unwrap();
    let mut worker = worker;
    worker.next().await;
    worker.stop().await;
}

#[tokio::test]
async fn event_driven_only_is_woken_by_rings_and_never_looks_at_a_heartbeat() {
    let place = Place::new().await;
    let (bugle, mut worker) = one_in(&place, Mode::EventDrivenOnly, POLL).await;
    place.asleep(&bugle, 1).await;
    let counters = node(&bugle).counters();
    let beats = counters.heartbeats.get();
    until("the heart beats", async || counters.heartbeats.get() > beats + 4).await;
    assert_eq!(counters.looks_by(Why::Heartbeat), 0);
    let id = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, id);
    assert_eq!((counters.looks_by(Why::Ring), counters.looks_by(Why::Heartbeat)), (1, 0));
    worker.stop().await;
}

#[tokio::test]
async fn event_driven_only_waits_for_a_lost_ring_until_the_listener_reconnects() {
    let place = Place::new().await;
    place.outside.set_mode("q", Mode::EventDrivenOnly, None).await.unwrap();
    let proxy = place.proxy().await;
    let through = proxy.rewrite(place.db.connect_options());
    let bugle =
        place.node_with(Some(through), |options| options.times.heartbeat = Duration::from_millis(200)).await;
    let mut worker = Running::on(&bugle, "q");
    knows(&place, &bugle, "q", Mode::EventDrivenOnly).await;
    place.asleep(&bugle, 1).await;

    let lost = proxy.set(Fault::drop_notifications());
    let id = place.enqueue("q", 1).await[0];
    lost.has_hit(1).await;
    lost.lift();
    let beats = node(&bugle).counters().heartbeats.get();
    until("the heart beats", async || node(&bugle).counters().heartbeats.get() > beats + 4).await;
    assert!(worker.begun().is_empty(), "no fallback look in this mode");

    let cut = proxy.set(Fault::cut(Cut::Reset).on(proxy.so_far()));
    cut.has_hit(1).await;
    assert_eq!(worker.next().await.id, id, "a reconnect wakes everybody");
    worker.stop().await;
}

#[tokio::test]
async fn hybrid_is_woken_by_rings_and_looks_at_its_heartbeat_as_well() {
    let place = Place::new().await;
    let (bugle, mut worker) = one_in(&place, Mode::Hybrid, POLL).await;
    place.asleep(&bugle, 1).await;
    let counters = node(&bugle).counters();
    let (before, polls) = (counters.looks_by(Why::Heartbeat), counters.looks_by(Why::Poll));
    until("it has looked", async || counters.looks_by(Why::Heartbeat) > before + 2).await;
    let id = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, id);
    assert_eq!(counters.looks_by(Why::Poll), polls, "it does not poll");
    worker.stop().await;
}

#[tokio::test]
async fn shadow_holds_its_seat_and_counts_rings_but_is_served_by_polls() {
    let place = Place::new().await;
    let (bugle, mut worker) = one_in(&place, Mode::Shadow, POLL).await;
    until("it sits", async || place.seats().await == (1, 0)).await;
    let counters = node(&bugle).counters();
    for n in 1..=3 {
        let id = place.enqueue("q", 1).await[0];
        assert_eq!(worker.next().await.id, id);
        until("the ring was counted", async || counters.shadow_rings.get() == n).await;
    }
    assert_eq!(place.seats().await, (1, 0), "it goes on holding it");
    assert!(counters.looks_by(Why::Poll) >= 3);
    assert_eq!((counters.looks_by(Why::Ring), counters.looks_by(Why::Heartbeat)), (0, 0));
    worker.stop().await;
}

#[tokio::test]
async fn shadow_misses_are_the_jobs_whose_ring_was_lost_and_no_others() {
    let place = Place::new().await;
    place.outside.set_mode("q", Mode::Shadow, Some(POLL)).await.unwrap();
    let proxy = place.proxy().await;
    let bugle = place.node_with(Some(proxy.rewrite(place.db.connect_options())), |_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    knows(&place, &bugle, "q", Mode::Shadow).await;
    until("it sits", async || place.seats().await == (1, 0)).await;
    let counters = node(&bugle).counters();
    let polled_twice = async || {
        let polls = counters.looks_by(Why::Poll);
        until("it has polled", async || counters.looks_by(Why::Poll) > polls + 1).await;
    };
    // From outside and by this process itself, at moments that have nothing to do with the polls.
    for n in 0..20 {
        let id = if n % 2 == 0 {
            place.enqueue("q", 1).await[0]
        } else {
            bugle.enqueue_raw("q", "k", raw("1")).send().await.unwrap()
        };
        assert_eq!(worker.next().await.id, id);
    }
    place.outside.enqueue_raw("q", "k", raw("1")).delay(POLL * 5 / 2).send().await.unwrap();
    worker.next().await;
    let rings = counters.shadow_rings.get();
    polled_twice().await;

    let lost = proxy.set(Fault::drop_notifications());
    let id = place.enqueue("q", 1).await[0];
    assert_eq!(worker.next().await.id, id);
    until("the miss is counted", async || counters.shadow_misses.get() > 0).await;
    assert_eq!(
        (lost.hits(), counters.shadow_misses.get()),
        (1, 1),
        "of all of them the one whose ring was lost"
    );
    assert_eq!((counters.shadow_rings.get(), counters.fallback_hits.get()), (rings, 0));
    worker.stop().await;
}

#[tokio::test]
async fn switching_takes_effect_on_running_nodes_without_a_restart() {
    let place = Place::new().await;
    let bugles = [place.node(|_| {}).await, place.node(|_| {}).await];
    let mut workers: Vec<_> = bugles.iter().map(|bugle| Running::on(bugle, "q")).collect();
    until("both sit", async || place.seats().await == (1, 1)).await;
    for (mode, seats) in [
        (Mode::PollingOnly, (0, 0)),
        (Mode::Hybrid, (1, 1)),
        (Mode::Shadow, (1, 1)),
        (Mode::PollingOnly, (0, 0)),
        (Mode::EventDrivenOnly, (1, 1)),
        (Mode::Hybrid, (1, 1)),
    ] {
        place.outside.set_mode("q", mode, Some(POLL)).await.unwrap();
        for bugle in &bugles {
            knows(&place, bugle, "q", mode).await;
        }
        until(&format!("the seats of {mode}"), async || place.seats().await == seats).await;
        let id = place.enqueue("q", 1).await[0];
        until("served", async || workers.iter_mut().any(|worker| worker.begun() == [id])).await;
    }
    assert_eq!(node(&bugles[0]).counters().connects.get(), 1, "not by a new connection");
    for worker in workers {
        worker.stop().await;
    }
}

/// With the heartbeat and the leases of everyday: a claim whose answer is lost on a machine that stalls is made good by them. That no switch
/// loses a wake is explored without them (`nothing_is_lost_when_modes_are_switched` of the engine).
#[tokio::test]
async fn nothing_is_lost_when_modes_are_switched_while_jobs_flow() {
    let place = Place::new().await;
    let everyday = |options: &mut bugle_wake::Options| options.times.heartbeat = Duration::from_secs(5);
    let bugles = [place.node(everyday).await, place.node(everyday).await];
    let lease = Duration::from_secs(20);
    let mut workers: Vec<_> = bugles.iter().map(|bugle| Running::leased(bugle, "q", lease)).collect();
    let flow = {
        let producer = place.outside.clone();
        tokio::spawn(async move {
            let mut ids = HashSet::new();
            for _ in 0..400 {
                ids.insert(producer.enqueue_raw("q", "k", raw("1")).send().await.unwrap());
                tokio::time::sleep(Duration::from_millis(4)).await;
            }
            ids
        })
    };
    let modes = [Mode::PollingOnly, Mode::Hybrid, Mode::EventDrivenOnly, Mode::Shadow, Mode::Hybrid];
    for mode in modes.into_iter().cycle() {
        place.outside.set_mode("q", mode, Some(POLL)).await.unwrap();
        for bugle in &bugles {
            knows(&place, bugle, "q", mode).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // some jobs in each
        if flow.is_finished() && mode == Mode::Hybrid {
            break;
        }
    }
    let wanted = flow.await.unwrap();
    let mut begun: Vec<_> = Vec::new();
    until("all have begun", async || {
        begun.extend(workers.iter_mut().flat_map(Running::begun));
        begun.len() >= wanted.len()
    })
    .await;
    assert_eq!(begun.len(), wanted.len(), "none twice");
    assert_eq!(begun.into_iter().collect::<HashSet<_>>(), wanted);
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_control_ring_makes_every_node_read_the_modes_again() {
    let place = Place::new().await;
    let bugle = place.node(|_| {}).await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    place.execute("UPDATE bugle.queue SET mode = 'polling_only'").await;
    place.execute("SELECT bugle.ring_control()").await;
    knows(&place, &bugle, "q", Mode::PollingOnly).await;
    assert_eq!(node(&bugle).counters().controls.get(), 1);
    worker.stop().await;
}

#[tokio::test]
async fn a_control_ring_that_was_lost_is_made_good_by_the_heartbeat() {
    let place = Place::new().await;
    let proxy = place.proxy().await;
    let through = proxy.rewrite(place.db.connect_options());
    let bugle =
        place.node_with(Some(through), |options| options.times.heartbeat = Duration::from_millis(300)).await;
    let worker = Running::on(&bugle, "q");
    place.asleep(&bugle, 1).await;
    let lost = proxy.set(Fault::drop_notifications());
    place.outside.set_mode("q", Mode::PollingOnly, None).await.unwrap();
    knows(&place, &bugle, "q", Mode::PollingOnly).await;
    assert_eq!((lost.hits(), node(&bugle).counters().controls.get()), (1, 0));
    worker.stop().await;
}

#[tokio::test]
async fn a_node_that_starts_later_knows_the_modes_also_of_queues_it_comes_to_later() {
    let place = Place::new().await;
    place.outside.queue("later").await.unwrap();
    for queue in ["q", "later"] {
        place.outside.set_mode(queue, Mode::PollingOnly, Some(POLL)).await.unwrap();
    }
    let bugle = place.node(|_| {}).await;
    let mut worker = Running::on(&bugle, "q");
    knows(&place, &bugle, "later", Mode::PollingOnly).await;
    let mut later = Running::on(&bugle, "later");
    for (queue, worker) in [("q", &mut worker), ("later", &mut later)] {
        place.enqueue(queue, 1).await;
        worker.next().await;
    }
    until("no seat is held", async || place.seats().await == (0, 0)).await;
    assert_eq!(node(&bugle).counters().looks_by(Why::Ring), 0);
    worker.stop().await;
    later.stop().await;
}

#[tokio::test]
async fn unknown_queues_and_modes_are_refused_with_a_sentence() {
    let place = Place::new().await;
    let refused = place.outside.set_mode("nowhere", Mode::Shadow, None).await.unwrap_err().to_string();
    assert!(refused.contains("queue \"nowhere\" does not exist in namespace \"default\""), "{refused}");
    let refused = "fast".parse::<Mode>().unwrap_err().to_string();
    assert_eq!(refused, "mode is \"fast\"; there are hybrid, event_driven_only, polling_only and shadow");
    let sql = place.db.sql("SELECT bugle.set_mode('q', 'fast')").unwrap();
    let refused = sqlx::query(sql).execute(place.db.pool()).await.unwrap_err().to_string();
    assert!(refused.contains("mode is \"fast\"; there are hybrid, event_driven_only"), "{refused}");
    let year = Some(Duration::from_hours(24 * 365));
    let refused = place.outside.set_mode("q", Mode::PollingOnly, year).await.unwrap_err().to_string();
    assert!(refused.contains("allowed are 1 millisecond to 1 day"), "{refused}");
    let mode = place.one::<String>("SELECT mode FROM bugle.queue").await;
    assert_eq!(mode, "hybrid", "nothing was changed");
}
