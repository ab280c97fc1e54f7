//! A run in a place of its own.
use bugle::Bugle;
use bugle::pg::embedded::Options;
use bugle_testkit::chaos::{Node, Role, Run};
use bugle_testkit::checker::Report;
use bugle_testkit::history::{FaultKind, RecorderClient};
use bugle_testkit::postgres::{TestDb, TestServer};
use std::time::{Duration, Instant};

pub(crate) const LEASE: Duration = Duration::from_millis(600);
pub(crate) const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// A run on the shared server, and where its nodes connect to.
pub(crate) async fn shared_run() -> (TestDb, Run) {
    let db = TestDb::schema().await.unwrap();
    let run = Run::new(db.bugle().await.unwrap(), NODE, LEASE).unwrap();
    (db, run)
}

/// A run on a server of its own, with these settings, which may be hurt.
pub(crate) async fn own_run(settings: &[(&str, &str)]) -> (TestServer, Run) {
    let options =
        settings.iter().fold(Options::ephemeral(), |options, (name, value)| options.setting(*name, *value));
    let server = TestServer::with(options).await.unwrap();
    let bugle = Bugle::new(server.pool().unwrap(), bugle::Options::default()).await.unwrap();
    let run = Run::new(bugle, NODE, LEASE).unwrap();
    (server, run)
}

/// Producers and workers of a run.
pub(crate) struct Nodes {
    pub(crate) producers: Vec<Node>,
    pub(crate) workers: Vec<Node>,
}

impl Nodes {
    pub(crate) fn start(run: &mut Run, url: &str, producers: usize, workers: usize) -> Self {
        let mut start = |role, n| (0..n).map(|_| run.node(role, url).unwrap()).collect();
        Self { producers: start(Role::Producer, producers), workers: start(Role::Worker, workers) }
    }
}

/// Runs `breaks` again and again, a moment apart, for as long as the run goes on.
pub(crate) async fn again_and_again(time: Duration, pause: Duration, mut breaks: impl AsyncFnMut()) {
    let begun = Instant::now();
    tokio::time::sleep(pause).await;
    while begun.elapsed() < time {
        breaks().await;
        tokio::time::sleep(pause).await;
    }
}

/// Kills a node and starts another one in its place.
pub(crate) fn replace(run: &mut Run, nemesis: &RecorderClient, nodes: &mut Vec<Node>, role: Role, url: &str) {
    let victim = nodes.remove(0);
    let window = nemesis.fault(FaultKind::Killed, Some(&victim.who)).unwrap();
    victim.kill().unwrap();
    nodes.push(run.node(role, url).unwrap());
    window.end().unwrap();
}

/// Green, and hard enough: this kind of fault hit so often, and so many answers were unknown.
pub(crate) fn demand(report: &Report, kind: &FaultKind, faults: u64, unknowns: u64) {
    report.demand(faults, unknowns).unwrap();
    let hit = report.counts.faults_hit.get(kind).copied().unwrap_or(0);
    assert!(hit >= faults, "{kind} hit {hit} times, {faults} required");
    assert!(report.counts.hand_outs > 100, "too little happened to prove anything");
}
