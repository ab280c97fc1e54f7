//! The broker over HTTP, in processes that are killed: row 3 of the fault matrix with real servers and real sockets.
//!
//! Short by default; `BUGLE_CHAOS_SECONDS` makes it longer, `BUGLE_SEED` repeats it.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests are tests

mod clients;
mod servers;
mod witness;

use bugle::broker::operate::QueueOptions;
use bugle_testkit::chaos::broken::{Break, POP_WHATEVER_IS_LEASED};
use bugle_testkit::chaos::{QUEUE, Run, seconds};
use bugle_testkit::checker::{Report, Rule};
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::TestDb;
use clients::{Crowd, Site};
use servers::Server;
use std::time::{Duration, Instant};

/// The lease of every pop: one of a consumer that has died ends in the run.
const LEASE_SECONDS: i32 = 2;
/// Pops that wait at a server when it is killed.
const WAITING: usize = 1_000;
/// Clients beyond those, for what is handed out just then: at most one lease for each group and partition.
const BUSY: usize = 50;
/// So many servers are killed, however slow the machine is.
const KILLS_MIN: usize = 2;

struct Scene {
    db: TestDb,
    run: Run,
}

/// A queue whose pops lease for as long as the checker thinks, and a witness of every claim.
async fn scene() -> Scene {
    let db = TestDb::schema().await.unwrap();
    let lease = Duration::from_secs(u64::try_from(LEASE_SECONDS).unwrap());
    let run = Run::new(db.bugle().await.unwrap(), "", lease).unwrap(); // its clients are here, not in nodes of their own
    run.prepare_messages().await.unwrap();
    let (retry_limit, lease_seconds) = (Some(1_000_000), Some(LEASE_SECONDS));
    let options = QueueOptions { retry_limit, lease_seconds, ..QueueOptions::default() };
    run.bugle.broker().configure(QUEUE, &options).await.unwrap();
    witness::watch(&db).await;
    Scene { db, run }
}

impl Scene {
    /// Everybody stops; what is left is drained, and the checker judges.
    async fn judge(self, crowd: Crowd) -> Report {
        crowd.stop().await;
        let Self { db, run } = self;
        run.finish_completed(Vec::new(), Vec::new(), async |history, books| {
            Ok(witness::complete(&db, history, books).await)
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn row_3_a_server_with_a_thousand_waiting_pops_is_killed_and_its_clients_go_to_the_other() {
    let scene = scene().await;
    let (nemesis, begun) = (scene.run.nemesis(), Instant::now());
    let mut servers = [Server::start(&scene.db, 1).await, Server::start(&scene.db, 2).await];
    let site = Site::new([servers[0].url(), servers[1].url()]);
    let crowd = Crowd::start(&scene.run, &site, WAITING + BUSY, 4);
    let mut kills = 0;
    while kills < KILLS_MIN || begun.elapsed() < seconds(8) {
        let doomed = kills % 2;
        servers[doomed].until_waiting(WAITING).await;
        let window = nemesis.fault(FaultKind::Killed, Some(servers[doomed].name())).unwrap();
        kills += 1;
        let other = Server::start(&scene.db, kills + 2);
        let next = servers[doomed].kill_and_replace(other).await;
        site.put(doomed, next);
        window.end().unwrap();
        crowd.until_answered_anew().await;
    }
    let report = scene.judge(crowd).await;
    let unknowns = u64::try_from(kills * WAITING / 2).unwrap(); // whoever waited does not know; some were answered just before
    report.demand(u64::try_from(kills).unwrap(), unknowns).unwrap();
    assert!(report.counts.hand_outs > 100, "too little happened to prove anything");
}

/// The same clients and the same witness, on a broker that hands out what is leased: the verdict must be red.
async fn work(safety: Break) -> Vec<Rule> {
    let mut scene = scene().await;
    safety.apply(&scene.run.bugle).await.unwrap();
    scene.run.expect_red(Duration::from_secs(2));
    let server = Server::start(&scene.db, 1).await;
    let site = Site::new([server.url(), server.url()]);
    let crowd = Crowd::start(&scene.run, &site, 40, 3);
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    scene.judge(crowd).await.broken_rules()
}

#[tokio::test]
async fn two_holders_of_one_lease_are_found_over_http() {
    let mut seen = Vec::new();
    // A race needs luck to show.
    for _ in 0..20 {
        let found = work(POP_WHATEVER_IS_LEASED).await;
        if found.contains(&Rule::M4) {
            return;
        }
        seen.push(found);
    }
    panic!("wanted M4, found {seen:?}");
}
