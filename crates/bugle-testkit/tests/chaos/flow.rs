//! Workflows under the same faults: rows 1, 2, 4, 8 and 11, and workflows broken on purpose.
use crate::crash_points::all_die;
use crate::place::{Nodes, again_and_again, own_run, shared_run};
use crate::server::SLOW_FLUSH;
use bugle::crash;
use bugle_testkit::chaos::broken::{self, Break};
use bugle_testkit::chaos::{FlowReport, Role, Run, seconds};
use bugle_testkit::history::FaultKind;
use bugle_testkit::postgres::TestDb;
use std::time::Duration;

/// What it takes luck to show may stay hidden for so many runs.
const RUNS_MAX: usize = 20;

async fn flow_run() -> (TestDb, Run) {
    let (db, run) = shared_run().await;
    run.prepare_flow().await.unwrap();
    (db, run)
}

/// Nothing is wrong, and enough happened to prove something.
fn demand(report: &FlowReport, unknown_starts: usize, taken_over: i64) {
    assert!(report.faults.is_empty(), "{report}");
    assert!(report.runs >= 20, "too little happened to prove anything: {report}");
    assert!(report.unknown_starts >= unknown_starts, "no start had an unknown answer: {report}");
    assert!(report.taken_over >= taken_over, "no step was taken over: {report}");
}

/// Lets others take what nodes believe to hold, again and again.
async fn end_leases(run: &Run, time: Duration) {
    again_and_again(time, Duration::from_millis(50), async || run.end_leases().await.unwrap()).await;
}

#[tokio::test]
async fn row_1_killed_starters_and_nodes_lose_no_run() {
    let (db, mut run) = flow_run().await;
    let mut nodes = Nodes::start_flow(&mut run, db.url(), 2, 2);
    nodes.kill_in_turn(&mut run, db.url(), (Role::Starter, Role::FlowNode), seconds(8)).await;
    let report = run.finish_flow(nodes.producers, nodes.workers, false).await.unwrap();
    demand(&report, 1, 1);
}

#[tokio::test]
async fn row_2_dying_at_any_crash_point_loses_no_run() {
    let (db, mut run) = flow_run().await;
    let nodes = Nodes::start_flow(&mut run, db.url(), 1, 1);
    let nemesis = run.nemesis();
    // A worker of steps alone where the jobs of the engine go the same way: it is a step that it dies of.
    let role = |point: &str| match point.split('.').next() {
        Some("start") => Role::Starter,
        Some("engine") => Role::FlowNode,
        _ => Role::StepWorker,
    };
    let dying = crash::FLOW_POINTS.iter().map(|point| (*point, role(point)));
    all_die(&mut run, db.url(), &nemesis, dying).await;
    let report = run.finish_flow(nodes.producers, nodes.workers, false).await.unwrap();
    demand(&report, 2, 1);
}

#[tokio::test]
async fn row_4_a_node_that_wakes_after_its_leases_is_refused() {
    let (db, mut run) = flow_run().await;
    let mut nodes = Nodes::start_flow(&mut run, db.url(), 1, 2);
    let nemesis = run.nemesis();
    nodes.pause_in_turn(&nemesis, seconds(3)).await;
    end_leases(&run, seconds(2)).await;
    let report = run.finish_flow(nodes.producers, nodes.workers, false).await.unwrap();
    demand(&report, 0, 1);
}

#[tokio::test]
async fn row_8_a_server_stopped_at_once_again_and_again_loses_no_run() {
    let (mut server, mut run) = own_run(&[]).await;
    run.prepare_flow().await.unwrap();
    // Commits that take their time: there is always one under way when the blow falls.
    server.slow_flush(SLOW_FLUSH).await.unwrap();
    let nodes = Nodes::start_flow(&mut run, &server.url().unwrap(), 2, 2);
    let nemesis = run.nemesis();
    again_and_again(seconds(6), Duration::from_millis(1200), async || {
        let window = nemesis.fault(FaultKind::ServerCrash, None).unwrap();
        server.stop_at_once().await.unwrap();
        server.restart().await.unwrap();
        window.end().unwrap();
    })
    .await;
    server.normal_flush().await.unwrap();
    let report = run.finish_flow(nodes.producers, nodes.workers, true).await.unwrap();
    demand(&report, 1, 0);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn row_11_terminated_listeners_delay_runs_and_lose_none() {
    let (server, mut run) = own_run(&[]).await;
    run.prepare_flow().await.unwrap();
    let nodes = Nodes::start_flow(&mut run, &server.url().unwrap(), 1, 2);
    let (nemesis, pool) = (run.nemesis(), server.pool().unwrap());
    let listeners = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'bugle listener%'";
    let mut ended = 0;
    again_and_again(seconds(5), Duration::from_millis(150), async || {
        let window = nemesis.fault(FaultKind::BackendTerminated, None).unwrap();
        // Two statements: in one, the planner may end sessions before it looks at their names.
        let found: Vec<i32> = sqlx::query_scalar(listeners).fetch_all(&pool).await.unwrap();
        ended += found.len();
        let end = "SELECT count(pg_terminate_backend(pid)) FROM unnest($1::int[]) AS pid";
        sqlx::query(end).bind(found).execute(&pool).await.unwrap();
        window.end().unwrap();
    })
    .await;
    let report = run.finish_flow(nodes.producers, nodes.workers, false).await.unwrap();
    demand(&report, 0, 0);
    assert!(ended >= 2, "only {ended} listeners were ended");
    server.stop().await.unwrap();
}

/// The same work, one safety less: the report has a fault with these words.
async fn is_found(safety: Break, words: &str, work: impl AsyncFn(&mut Run, &mut Nodes, &str)) {
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        let (db, mut run) = flow_run().await;
        safety.apply(&run.bugle).await.unwrap();
        run.expect_red(Duration::from_secs(2));
        let mut nodes = Nodes::start_flow(&mut run, db.url(), 1, 2);
        work(&mut run, &mut nodes, db.url()).await;
        let report = run.finish_flow(nodes.producers, nodes.workers, false).await.unwrap();
        if report.faults.iter().any(|fault| fault.contains(words)) {
            return;
        }
        seen.extend(report.faults);
    }
    panic!("{}: wanted {words:?}, found {seen:?}", safety.name);
}

#[tokio::test]
async fn a_late_finisher_that_ends_a_step_of_another_is_found() {
    is_found(broken::TAKE_WITHOUT_PROOF, "who had it", async |run, _, _| {
        end_leases(run, Duration::from_secs(2)).await;
    })
    .await;
}

#[tokio::test]
async fn steps_of_dead_workers_that_are_lost_are_found() {
    is_found(broken::SWEEP_THAT_LOSES, "not succeeded", async |run, nodes, url| {
        let roles = (Role::Starter, Role::FlowNode);
        nodes.kill_in_turn(run, url, roles, Duration::from_secs(2)).await;
    })
    .await;
}
