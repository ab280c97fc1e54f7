//! Rows 1, 3, 4 and 5: nodes that die, and nodes that stand still past their leases, one at a time or all at once.
use crate::place::{LEASE, Nodes, again_and_again, demand, shared_run};
use bugle_testkit::chaos::{Due, Role, Within, seconds};
use bugle_testkit::history::FaultKind;
use rustix::process::Signal;
use std::time::Duration;

#[tokio::test]
async fn row_1_killed_workers_and_producers_lose_nothing() {
    let (db, mut run) = shared_run().await;
    let mut nodes = Nodes::start(&mut run, db.url(), 2, 3);
    nodes.kill_in_turn(&mut run, db.url(), (Role::Producer, Role::Worker), seconds(6)).await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::Killed, 3, 1);
    assert!(report.counts.redeliveries > 0, "no job of a dead worker came back");
}

#[tokio::test]
async fn row_3_a_thousand_waiting_consumers_die_with_a_hundred_jobs_in_their_hands() {
    let (db, mut run) = shared_run().await;
    run.limits.drain_grace = Duration::from_secs(20); // each of the crowd takes and acks one job at a time
    let nemesis = run.nemesis();
    let mut crowds: Vec<_> = (0..2).map(|_| run.node(Role::Crowd, db.url()).unwrap()).collect();
    let source = run.client(run.bugle.clone(), "source").await.unwrap();
    let bugle = run.bugle.clone();
    let leased = async || bugle.list_queues().await.unwrap().iter().map(|q| q.leased).sum::<i64>();
    let mut marks = 1_u64..;
    let mut killed = 0;
    again_and_again(seconds(4), Duration::from_millis(500), async || {
        let some: Vec<u64> = marks.by_ref().take(200).collect();
        source.enqueue(&some, None, 20, Within::Call).await.unwrap();
        let begun = std::time::Instant::now();
        while leased().await < 100 && begun.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        killed += leased().await;
        let victim = crowds.remove(0);
        let window = nemesis.fault(FaultKind::Killed, Some(&victim.who)).unwrap();
        victim.kill().unwrap();
        window.end().unwrap();
        crowds.push(run.node(Role::Crowd, db.url()).unwrap());
    })
    .await;
    assert!(killed > 100, "only {killed} jobs were in hands when they died");
    let report = run.finish(Vec::new(), crowds).await.unwrap();
    demand(&report, &FaultKind::Killed, 2, 1);
    assert!(report.counts.redeliveries > 0, "no job of the dead came back");
}

#[tokio::test]
async fn row_4_a_worker_that_wakes_after_its_lease_is_refused() {
    let (db, mut run) = shared_run().await;
    let mut nodes = Nodes::start(&mut run, db.url(), 2, 3);
    let nemesis = run.nemesis();
    nodes.pause_in_turn(&nemesis, seconds(4)).await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    // A process that stands still answers late, not doubtfully: no unknowns are asked for here.
    demand(&report, &FaultKind::Paused, 1, 0);
    assert!(report.counts.redeliveries > 0);
}

/// Jobs that become due while everything stands still.
const OVERDUE: usize = 20;

#[tokio::test]
async fn row_5_after_a_standstill_old_tokens_are_refused_and_overdue_jobs_run_once() {
    let (db, mut run) = shared_run().await;
    let nodes = Nodes::start(&mut run, db.url(), 2, 3);
    let nemesis = run.nemesis();
    let scheduler = run.client(run.bugle.clone(), "scheduler").await.unwrap();
    let mut marks = (1_u64 << 60)..; // beyond those of all producers
    again_and_again(seconds(4), Duration::from_millis(600), async || {
        let now = scheduler.db_now().await.unwrap();
        let due = Some(Due::After(LEASE, now));
        let some: Vec<u64> = marks.by_ref().take(OVERDUE).collect();
        scheduler.enqueue(&some, due, 20, Within::Call).await.unwrap();
        let all = || nodes.producers.iter().chain(&nodes.workers);
        let windows: Vec<_> =
            all().map(|node| nemesis.fault(FaultKind::Paused, Some(&node.who)).unwrap()).collect();
        all().for_each(|node| node.signal(Signal::STOP).unwrap());
        tokio::time::sleep(LEASE * 4).await;
        let overdue = db.sql("SELECT count(*) FROM bugle.due WHERE due_at <= clock_timestamp()").unwrap();
        let overdue: i64 = sqlx::query_scalar(overdue).fetch_one(db.pool()).await.unwrap();
        assert!(overdue >= i64::try_from(OVERDUE).unwrap(), "only {overdue} jobs are overdue");
        // All at once: whoever is first takes what the others still believe to hold.
        all().for_each(|node| node.signal(Signal::CONT).unwrap());
        for window in windows {
            window.end().unwrap();
        }
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::Paused, 5, 0);
    assert!(report.counts.redeliveries > 0);
}
