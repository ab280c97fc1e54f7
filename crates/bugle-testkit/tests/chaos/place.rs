//! A run in a place of its own.
use bugle::Bugle;
use bugle::pg::embedded::Options;
use bugle_testkit::chaos::{Node, Role, Run};
use bugle_testkit::checker::Report;
use bugle_testkit::history::{FaultKind, RecorderClient};
use bugle_testkit::postgres::{TestDb, TestServer};
use rustix::process::Signal;
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
    /// Those of messages.
    pub(crate) fn start_messages(run: &mut Run, url: &str, producers: usize, consumers: usize) -> Self {
        Self::of((Role::Pusher, Role::Popper), run, url, producers, consumers)
    }

    /// Those of workflows: starters, and nodes that run steps.
    pub(crate) fn start_flow(run: &mut Run, url: &str, starters: usize, nodes: usize) -> Self {
        Self::of((Role::Starter, Role::FlowNode), run, url, starters, nodes)
    }

    pub(crate) fn start(run: &mut Run, url: &str, producers: usize, workers: usize) -> Self {
        Self::of((Role::Producer, Role::Worker), run, url, producers, workers)
    }

    fn of(roles: (Role, Role), run: &mut Run, url: &str, producers: usize, workers: usize) -> Self {
        let mut start = |role, n| (0..n).map(|_| run.node(role, url).unwrap()).collect();
        Self { producers: start(roles.0, producers), workers: start(roles.1, workers) }
    }

    /// Kills workers and producers in turn, and starts others with these roles in their place.
    pub(crate) async fn kill_in_turn(
        &mut self,
        run: &mut Run,
        url: &str,
        roles: (Role, Role),
        time: Duration,
    ) {
        let nemesis = run.nemesis();
        let mut turn = 0;
        again_and_again(time, Duration::from_millis(300), async || {
            turn += 1;
            if turn % 3 == 0 {
                replace(run, &nemesis, &mut self.producers, roles.0, url);
            } else {
                replace(run, &nemesis, &mut self.workers, roles.1, url);
            }
        })
        .await;
    }

    /// Stops one worker after the other for longer than its lease, and lets it go on.
    pub(crate) async fn pause_in_turn(&mut self, nemesis: &RecorderClient, time: Duration) {
        again_and_again(time, Duration::from_millis(200), async || {
            let sleeper = self.workers.remove(0);
            let window = nemesis.fault(FaultKind::Paused, Some(&sleeper.who)).unwrap();
            sleeper.signal(Signal::STOP).unwrap();
            tokio::time::sleep(LEASE + LEASE / 2).await;
            sleeper.signal(Signal::CONT).unwrap();
            window.end().unwrap();
            self.workers.push(sleeper);
        })
        .await;
    }
}

/// A run of the broker on the shared server.
pub(crate) async fn message_run() -> (TestDb, Run) {
    let (db, run) = shared_run().await;
    run.prepare_messages().await.unwrap();
    (db, run)
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
