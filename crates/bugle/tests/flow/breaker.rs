//! A database that is away: one probe a second asks for it, whatever the node has to do, and the first that finds it lets everybody go on.
use crate::fixture::{SOON, until};
use bugle::flow::{Definition, RunHandle, RunState, Step};
use bugle::health::Level;
use bugle::name::NamespaceName;
use bugle::wake_engine::Path;
use bugle::{Bugle, Options};
use bugle_testkit::postgres::TestServer;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long it is away, as the issue has it.
const AWAY: Duration = Duration::from_secs(10);

/// In place of a server that was stopped: counts who comes, and says that it is starting up. A pool that is told so tries again by itself, as it
/// does when nobody listens at all.
struct Stand {
    came: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Stand {
    async fn new(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let came = Arc::new(AtomicU64::new(0));
        let counted = came.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(refuse(client));
            }
        });
        Self { came, _task: AbortOnDropHandle::new(task) }
    }
}

/// Answers as PostgreSQL does while it starts.
async fn refuse(mut client: TcpStream) -> std::io::Result<()> {
    let mut head = [0; 8];
    client.read_exact(&mut head).await?;
    if head == [0, 0, 0, 8, 4, 210, 22, 47] {
        client.write_all(b"N").await?; // it asked for TLS
        client.read_exact(&mut head).await?;
    }
    let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap();
    client.write_all(&[b"E", &length.to_be_bytes()[..], fields].concat()).await?;
    client.shutdown().await?;
    client.read_to_end(&mut Vec::new()).await.map(drop)
}

/// A node on a server of its own, with workflows in some namespaces.
async fn node(server: &TestServer) -> (Bugle, Vec<Bugle>) {
    let pool = PgPoolOptions::new().max_connections(8).acquire_timeout(Duration::from_secs(30));
    let pool = pool.connect_with(server.connect_options().unwrap()).await.unwrap();
    let bugle = Bugle::new(pool, Options::default()).await.unwrap();
    let mut spaces = Vec::new();
    for n in 0..5 {
        let name = NamespaceName::parse(&format!("n{n}")).unwrap();
        bugle.create_namespace(&name).await.unwrap();
        let space = bugle.in_namespace(&name).await.unwrap();
        let definition =
            Definition::parse_yaml("name: d\nsteps: [ { name: a }, { name: b, after: a } ]").unwrap();
        space.flow().define(&definition).await.unwrap();
        spaces.push(space);
    }
    (bugle, spaces)
}

async fn start_all(spaces: &[Bugle]) -> Vec<RunHandle> {
    let mut runs = Vec::new();
    for space in spaces {
        runs.push(space.flow().start("d", &json!({})).send().await.unwrap());
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_asks_once_a_second_for_a_database_that_is_away_and_goes_on_with_the_first_answer() {
    let mut server = TestServer::own().await.unwrap();
    let (bugle, spaces) = node(&server).await;
    let gate = Arc::new(Semaphore::new(0));
    let stop = CancellationToken::new();
    let coordinators = ["a", "b"].into_iter().fold(bugle.flow().coordinators("steps"), |all, name| {
        let gate = gate.clone();
        all.lease(Duration::from_secs(3)).handle(name, move |_: Step| {
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        })
    });
    let running = tokio::spawn(coordinators.run(stop.clone()));
    let runs = start_all(&spaces).await;
    let flow = bugle.flow();
    until("a step of each runs", async || flow.counters().running.get() == 5).await;

    server.stop_at_once().await.unwrap();
    let probes = &bugle.node().unwrap().counters().probes;
    until("it is noticed", async || bugle.node().unwrap().status().away_for.is_some()).await;
    let (stand, begun) = (Stand::new(server.connect_options().unwrap().get_port()).await, Instant::now());
    gate.add_permits(100); // what runs ends, and is to be settled; leases are to be renewed, the listener to connect, everybody to look
    tokio::time::sleep(AWAY).await; // the scenario itself
    let (came, counted) = (stand.came.load(Ordering::Relaxed), probes.get());
    let seconds = begun.elapsed().as_secs() + 1;
    assert!((1..=seconds).contains(&came), "{came} connections within {seconds} s");
    let health = bugle.health();
    assert_eq!((health.level(), health.checks[0].level), (Level::Failed, Level::Failed), "{health:?}");
    assert!(health.checks[0].reason.contains("the database has been away for"), "{health:?}");
    assert!(counted >= came, "every one of them was a probe: {counted} probes, {came} came");

    drop(stand);
    server.restart().await.unwrap();
    let (before, claimed) = (probes.get(), claimed(&bugle));
    until("a step is claimed", async || self::claimed(&bugle) > claimed || !any_left(&runs).await).await;
    let asked = probes.get() - before;
    assert!(asked <= 1, "the next probe found it: {asked}");
    for run in &runs {
        let ended = run.wait_within(SOON).await.unwrap().expect("the run has not ended");
        assert_eq!(ended.state, RunState::Succeeded);
    }
    until("it is well", async || bugle.node().unwrap().status().listening).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    bugle.close().await;
    server.stop().await.unwrap();
}

/// Steps that were ever claimed.
fn claimed(bugle: &Bugle) -> u64 {
    Path::ALL.iter().map(|path| bugle.flow().counters().claimed(*path)).sum()
}

async fn any_left(runs: &[RunHandle]) -> bool {
    for run in runs {
        if run.wait_within(Duration::ZERO).await.is_ok_and(|ended| ended.is_none()) {
            return true;
        }
    }
    false
}
