//! Rows 1 and 4: workers and producers that die, and workers that stand still past their lease.
use crate::place::{LEASE, Nodes, again_and_again, demand, replace, shared_run};
use bugle_testkit::chaos::{Role, seconds};
use bugle_testkit::history::FaultKind;
use rustix::process::Signal;
use std::time::Duration;

#[tokio::test]
async fn row_1_killed_workers_and_producers_lose_nothing() {
    let (db, mut run) = shared_run().await;
    let mut nodes = Nodes::start(&mut run, db.url(), 2, 3);
    let nemesis = run.nemesis();
    let mut turn = 0;
    again_and_again(seconds(4), Duration::from_millis(300), async || {
        turn += 1;
        if turn % 3 == 0 {
            replace(&mut run, &nemesis, &mut nodes.producers, Role::Producer, db.url());
        } else {
            replace(&mut run, &nemesis, &mut nodes.workers, Role::Worker, db.url());
        }
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &FaultKind::Killed, 3, 1);
    assert!(report.counts.redeliveries > 0, "no job of a dead worker came back");
}

#[tokio::test]
async fn row_4_a_worker_that_wakes_after_its_lease_is_refused() {
    let (db, mut run) = shared_run().await;
    let mut nodes = Nodes::start(&mut run, db.url(), 2, 3);
    let nemesis = run.nemesis();
    again_and_again(seconds(4), Duration::from_millis(200), async || {
        let sleeper = nodes.workers.remove(0);
        let window = nemesis.fault(FaultKind::Paused, Some(&sleeper.who)).unwrap();
        sleeper.signal(Signal::STOP).unwrap();
        tokio::time::sleep(LEASE + LEASE / 2).await;
        sleeper.signal(Signal::CONT).unwrap();
        window.end().unwrap();
        nodes.workers.push(sleeper);
    })
    .await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    // A process that stands still answers late, not doubtfully: no unknowns are asked for here.
    demand(&report, &FaultKind::Paused, 1, 0);
    assert!(report.counts.redeliveries > 0);
}
