//! Row 19: no connection is to be had, because the server is full or because all of the pool's are in use.
use crate::place::{LEASE, Nodes, again_and_again, demand, own_run};
use bugle::{Bugle, Error, Outcome};
use bugle_testkit::chaos::{Recorded, Within, seconds};
use bugle_testkit::history::FaultKind;
use serde_json::value::RawValue;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::time::{Duration, Instant};

/// How long the caller's pool waits for a connection.
const ACQUIRE: Duration = Duration::from_millis(800);
/// How long an answer may take then, on a machine that has other things to do: less than any other bound.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How many call at once.
const CALLERS: u64 = 50;
/// What a node may grow by while it gets no connection.
const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Whose sessions are ended to make them look for new ones.
pub(crate) const NAME: &str = "squeezed";

pub(crate) fn full() -> FaultKind {
    FaultKind::Other("no_connection".into())
}

/// A session that has ended is gone from the list before its place is free, and nothing tells when: so often in a row nothing may come.
const QUIET_ROUNDS: u32 = 5;

/// Takes every connection that the server has left, also those that `NAME` had.
pub(crate) async fn take_all(admin: &mut PgConnection, options: &PgConnectOptions) -> Vec<PgConnection> {
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    let (mut taken, mut quiet) = (Vec::new(), 0);
    while quiet < QUIET_ROUNDS {
        let before = taken.len();
        let found: i64 = sqlx::query_scalar(ended).bind(NAME).fetch_one(&mut *admin).await.unwrap();
        loop {
            match PgConnection::connect_with(options).await {
                Ok(connection) => taken.push(connection),
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("53300") => break,
                Err(error) => panic!("{error}"),
            }
        }
        quiet = if found == 0 && taken.len() == before { quiet + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    taken
}

/// What the call answered, in time.
async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let answer = call.await;
    assert!(begun.elapsed() <= ANSWER_WITHIN, "{what} was answered after {:?}", begun.elapsed());
    answer
}

/// Every call is answered in time, and with a no.
async fn every_call_is_refused_in_time(client: &Recorded, marks: &mut impl Iterator<Item = u64>) {
    let mut callers = tokio::task::JoinSet::new();
    for mark in marks.by_ref().take(usize::try_from(CALLERS).unwrap()) {
        let bugle = client.bugle.clone();
        callers.spawn(in_time("an enqueue", async move {
            bugle.enqueue_raw("q", "k", RawValue::from_string(mark.to_string()).unwrap()).send().await
        }));
    }
    for answer in callers.join_all().await {
        let refused =
            matches!(&answer, Err(error @ Error::NoConnection(_)) if error.outcome() == Outcome::Refused);
        assert!(refused, "{answer:?}");
    }
    let [one, two, three, four] = [(); 4].map(|()| marks.next().unwrap());
    let (both, third) = ([one, two], [three]);
    let patience = Duration::from_millis(300);
    let (many, within, keyed, ack, claim, waiting) = tokio::join!(
        in_time("many", client.enqueue(&both, None, 5, Within::Call)),
        in_time("a transaction", client.enqueue(&third, None, 5, Within::Transaction)),
        in_time("a key", client.enqueue_with_key(four, "key", 5)),
        in_time("an ack", client.ack(&[], &[])),
        in_time("a claim", client.claim(1, LEASE, patience, patience)),
        in_time("a waiting claim", client.claim_within(1, LEASE, patience)),
    );
    assert!(many.unwrap().is_empty() && within.unwrap().is_empty() && keyed.unwrap().is_none());
    assert!(ack.unwrap().is_none() && claim.unwrap().is_none());
    // Its connection is not the pool's: that one may have had an answer.
    if let Some(look) = waiting.unwrap() {
        client.release(&look.jobs.iter().map(|job| job.receipt).collect::<Vec<_>>(), &[]).await.unwrap();
    }
}

/// A caller whose connections are ended with those of the nodes.
async fn caller(options: PgConnectOptions) -> (PgPool, Bugle) {
    let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(ACQUIRE);
    let pool = pool.connect_lazy_with(options.application_name(NAME));
    loop {
        // All others are starting just now as well, and it waits for nobody long.
        if let Ok(bugle) = Bugle::new(pool.clone(), bugle::Options::default()).await {
            return (pool, bugle);
        }
    }
}

#[tokio::test]
async fn row_19_without_a_connection_every_call_is_refused_in_time_and_nothing_is_lost() {
    let (server, mut run) = own_run(&[("max_connections", "50")]).await;
    let options = server.connect_options().unwrap();
    let nodes = Nodes::start(&mut run, &format!("{}?application_name={NAME}", server.url().unwrap()), 2, 3);
    let (pool, bugle) = caller(options.clone()).await;
    let client = loop {
        if let Ok(client) = run.client(bugle.clone(), "caller").await {
            break client;
        }
    };
    let mut admin = PgConnection::connect_with(&options).await.unwrap();
    let nemesis = run.nemesis();
    let all = || nodes.producers.iter().chain(&nodes.workers);
    let mut before = Vec::new();
    let mut marks = (1_u64 << 60)..; // beyond those of all producers
    again_and_again(seconds(4), Duration::from_millis(800), async || {
        if before.is_empty() {
            before = all().map(|node| node.resident_bytes().unwrap()).collect();
        }
        let window = nemesis.fault(full(), None).unwrap();
        let taken = take_all(&mut admin, &options).await;
        Box::pin(every_call_is_refused_in_time(&client, &mut marks)).await;
        drop(taken);
        window.end().unwrap();

        let window = nemesis.fault(full(), Some("caller")).unwrap();
        let mut held = Vec::new();
        while held.len() < 2 {
            held.extend(pool.acquire().await); // the server may still be busy with those that went
        }
        Box::pin(every_call_is_refused_in_time(&client, &mut marks)).await;
        drop(held);
        window.end().unwrap();
    })
    .await;
    for (node, before) in all().zip(before) {
        let grown = node.resident_bytes().unwrap().saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "{} has grown by {grown} bytes", node.who);
    }
    let report = run.finish(nodes.producers, nodes.workers).await.unwrap();
    demand(&report, &full(), 2, 0);
    server.stop().await.unwrap();
}
