//! Whole runtimes while something is broken: every orchestration goes as it is written.

use crate::fixture::{Place, SOON, counters, soon, until};
use crate::runtime::done;
use crate::written::{self, Begun, DISPATCHERS, WHOLE, WORD};
use bugle_duroxide::{LongPollConfig, Options, PostgresProvider};
use bugle_testkit::postgres::TestServer;
use duroxide::providers::Provider as _;
use duroxide::{Client, OrchestrationStatus};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// A node that does not poll fast after a fault: whatever a wake has missed waits for the heartbeat, and is counted.
async fn node_without_alert(place: &Place) -> PostgresProvider {
    let config = LongPollConfig {
        aggressive_poll_duration: Duration::from_millis(1),
        aggressive_exit_threshold: 1,
        notify_delivery_timeout: SOON,
        ..LongPollConfig::enabled()
    };
    place.provider(place.options(config)).await
}

/// Ends the listeners of both nodes while they sleep.
async fn cut_in_their_sleep(place: &Place, nodes: &[PostgresProvider; 2]) {
    for node in nodes {
        place.asleep(node, DISPATCHERS).await;
    }
    until("both have a seat", async || {
        place.one::<i64>("SELECT count(DISTINCT pid) FROM bugle.seat").await == 2
    })
    .await;
    assert_eq!(place.end_listeners().await, 2);
}

/// Some twice a second: in their sleep, just before somebody starts orchestrations, and again before each event that these wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_that_are_cut_again_and_again_miss_nothing() {
    const ROUNDS: u64 = 6;
    let place = Place::new().await;
    let nodes = [node_without_alert(&place).await, node_without_alert(&place).await];
    let (tell, mut begun) = Begun::new();
    let lease = Duration::from_secs(30); // no lost lease helps a wake that was missed
    let runtimes =
        [written::runtime(&nodes[0], &tell, lease).await, written::runtime(&nodes[1], &tell, lease).await];
    let reader = place.at_once().await;
    let client = Client::new(Arc::new(reader.clone()));
    for round in 0..ROUNDS {
        let instances: Vec<String> = (0..3).map(|n| format!("round {round}, {n}")).collect();
        cut_in_their_sleep(&place, &nodes).await;
        for instance in &instances {
            client.start_orchestration(instance, WHOLE, instance).await.unwrap();
        }
        for _ in &instances {
            let waiting = soon("another one begins", begun.next()).await.unwrap();
            place.end_listeners().await;
            client.raise_event(&waiting, WORD, "go").await.unwrap();
        }
        for instance in &instances {
            assert_eq!(done(&client, instance).await, written::output(instance));
            written::check(&reader, instance).await;
        }
    }
    for node in &nodes {
        let counters = counters(node);
        assert!(counters.disconnects.get() >= ROUNDS, "cut {} times", counters.disconnects.get());
        // Not even after a cut: a listener that comes back tells those who relied on its bell, and everybody looks.
        assert_eq!(counters.fallback_hits.get(), 0, "a wake was missed");
        assert_eq!(counters.panics.get(), 0);
    }
    for runtime in runtimes {
        runtime.shutdown(Some(1_000)).await;
    }
}

/// Everything that was begun comes to its end in this time, on the slowest machine.
const END_WITHIN: Duration = Duration::from_secs(90);
/// Two who start orchestrations pause so long after each.
const PACE: Duration = Duration::from_millis(10);

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

async fn provider(server: &TestServer, long_poll: LongPollConfig) -> PostgresProvider {
    let options = Options { long_poll, ..Options::default() };
    PostgresProvider::connect(&server.url().unwrap(), options).await.unwrap()
}

/// What the client was answered about its starts.
#[derive(Default)]
struct Answers {
    /// It was told that they are started, and when.
    told: Vec<(String, u64)>,
    /// They may be started, or not.
    unknown: Vec<String>,
}

/// Starts orchestrations until it is over.
async fn burst(client: Client, who: String, over: watch::Receiver<bool>) -> Answers {
    let mut answers = Answers::default();
    for n in 0.. {
        if *over.borrow() {
            break;
        }
        let instance = format!("{who}, {n}");
        match client.start_orchestration(&instance, WHOLE, &instance).await {
            Ok(()) => answers.told.push((instance, now_ms())),
            Err(_) => answers.unknown.push(instance),
        }
        tokio::time::sleep(PACE).await;
    }
    answers
}

/// Raises the event of each orchestration that has begun until it is told that it was raised, and tells how many that were.
async fn raise_words(client: Client, mut begun: Begun, raised: watch::Sender<usize>) {
    while let Some(instance) = begun.next().await {
        while client.raise_event(&instance, WORD, "go").await.is_err() {
            tokio::time::sleep(PACE).await;
        }
        raised.send_modify(|raised| *raised += 1);
    }
}

/// Waits for the end of an orchestration, which must be the one that is written; when that was, in Unix milliseconds.
async fn ended_as_written(reader: &PostgresProvider, instance: &str) -> u64 {
    let client = Client::new(Arc::new(reader.clone()));
    let status = client.wait_for_orchestration(instance, END_WITHIN).await.unwrap();
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{instance}: {status:?}");
    written::check(reader, instance).await
}

#[derive(Debug, Clone, Copy)]
enum Stop {
    /// As `pg_ctl stop -m fast`.
    Fast,
    /// `kill -9` of all its processes: the next start recovers from the log, and claims that were not flushed never were.
    Crash,
}

/// Stops and starts the server in the midst of a burst. When it was stopped, and what the client was answered.
async fn stop_in_a_burst(
    server: &mut TestServer,
    how: Stop,
    clients: [Client; 2],
    raised: &mut watch::Receiver<usize>,
) -> (u64, Vec<Answers>) {
    let (over, is_over) = watch::channel(false);
    let before = *raised.borrow();
    let bursts: Vec<_> = clients
        .into_iter()
        .zip(["one", "two"])
        .map(|(client, who)| tokio::spawn(burst(client, format!("{how:?} {who}"), is_over.clone())))
        .collect();
    soon("some have begun", raised.wait_for(|raised| *raised >= before + 6)).await.unwrap();
    let stopped_ms = now_ms();
    if matches!(how, Stop::Crash) {
        server.crash().await.unwrap();
    }
    server.restart().await.unwrap();
    over.send(true).unwrap();
    let mut answers = Vec::new();
    for burst in bursts {
        answers.push(burst.await.unwrap());
    }
    (stopped_ms, answers)
}

/// The provider's own pools, whose connections all die.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_in_the_midst_of_a_burst_ends_what_it_has_accepted() {
    let mut server = TestServer::own().await.unwrap();
    let nodes = [
        provider(&server, LongPollConfig::enabled()).await,
        provider(&server, LongPollConfig::enabled()).await,
    ];
    let front = provider(&server, LongPollConfig::default()).await;
    let client = || Client::new(Arc::new(front.clone()));
    let (tell, begun) = Begun::new();
    let lease = Duration::from_secs(3);
    let runtimes =
        [written::runtime(&nodes[0], &tell, lease).await, written::runtime(&nodes[1], &tell, lease).await];
    let (raised, mut is_raised) = watch::channel(0);
    let raising = tokio::spawn(raise_words(client(), begun, raised));

    let mut unknown = Vec::new();
    for how in [Stop::Fast, Stop::Crash] {
        until("both listen", async || {
            nodes.iter().all(|node| node.node().is_some_and(|node| node.status().listening))
        })
        .await;
        let (stopped_ms, answers) =
            stop_in_a_burst(&mut server, how, [client(), client()], &mut is_raised).await;
        let (reader, mut unfinished) = (provider(&server, LongPollConfig::default()).await, 0);
        for answers in answers {
            for (instance, told_ms) in answers.told {
                let completed_ms = ended_as_written(&reader, &instance).await;
                unfinished += u32::from(told_ms < stopped_ms && completed_ms > stopped_ms);
            }
            unknown.extend(answers.unknown);
        }
        assert!(unfinished > 0, "nothing was unfinished when the server was stopped: {how:?}");
    }
    let reader = provider(&server, LongPollConfig::default()).await;
    until_nothing_is_left(&reader).await;
    for instance in &unknown {
        if !reader.read(instance).await.unwrap().is_empty() {
            ended_as_written(&reader, instance).await; // it was started after all
        }
    }
    for node in &nodes {
        assert!(counters(node).disconnects.get() >= 2, "its listener was cut off by every stop");
    }
    let failed_looks: u64 = nodes.iter().map(|node| counters(node).failed_looks.get()).sum();
    assert!(failed_looks > 0 || !unknown.is_empty(), "nobody noticed that the server was away");
    raising.abort();
    for runtime in runtimes {
        runtime.shutdown(Some(1_000)).await;
    }
    drop((front, reader, nodes));
    server.stop().await.unwrap();
}

/// Waits until there is neither a message nor work.
async fn until_nothing_is_left(provider: &PostgresProvider) {
    let sql = "SELECT (SELECT count(*) FROM duroxide.message) + (SELECT count(*) FROM duroxide.work)";
    until("nothing is left", async || {
        let left: i64 = sqlx::query_scalar(sql).fetch_one(provider.pool()).await.unwrap();
        left == 0
    })
    .await;
}
