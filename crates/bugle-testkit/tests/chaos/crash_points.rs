//! Row 2: a process that dies at each crash point of enqueue, claim and settlement.
use crate::place::{Nodes, shared_run};
use bugle::crash;
use bugle_testkit::chaos::{Role, Run};
use bugle_testkit::history::{FaultKind, RecorderClient};
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

/// The longest that a node may take to come by its crash point.
const REACHED_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn row_2_dying_at_any_crash_point_loses_nothing() {
    let (db, mut run) = shared_run().await;
    let nodes = Nodes::start(&mut run, db.url(), 1, 1);
    let nemesis = run.nemesis();
    let role = |point: &str| if point.starts_with("enqueue") { Role::Producer } else { Role::Worker };
    let dying = crash::POINTS.iter().map(|point| (*point, role(point)));
    all_die(&mut run, db.url(), &nemesis, dying).await;
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    let killed = report.counts.faults_hit.get(&FaultKind::Killed).copied().unwrap_or(0);
    report.demand(1, 1).unwrap();
    assert!(killed > 0);
}

/// Starts a node for each crash point, and waits until each has died of its own.
pub(crate) async fn all_die(
    run: &mut Run,
    url: &str,
    nemesis: &RecorderClient,
    points: impl Iterator<Item = (&'static str, Role)>,
) {
    let mut dying = Vec::new();
    for (point, role) in points {
        let node = run.node_that_dies(role, url, point).unwrap();
        let window = nemesis.fault(FaultKind::Killed, Some(&node.who)).unwrap();
        dying.push((point, node, window));
    }
    let begun = Instant::now();
    while !dying.is_empty() {
        let mut left = Vec::new();
        for (point, mut node, window) in dying {
            match node.ended().unwrap() {
                Some(status) => {
                    assert_eq!(
                        status.signal(),
                        Some(6),
                        "{point}: ended otherwise than by its crash point: {status}"
                    );
                    window.end().unwrap();
                }
                None => left.push((point, node, window)),
            }
        }
        dying = left;
        let never: Vec<_> = dying.iter().map(|(point, ..)| point).collect();
        assert!(begun.elapsed() < REACHED_WITHIN, "never reached: {never:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
