//! A client: starts instances, or probes what becomes runnable by time alone.

use super::wire::{Kind, Late, Order, Sent};
use super::{Fault, MISDIRECTED, Orders, answer, now_ns};
use duroxide::Client;
use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// What a runtime gives a fetch, and how long it sleeps at least from one empty fetch to the next: duroxide's defaults.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A turn that is probed is found after two poll timeouts, or never.
const PATIENCE: Duration = Duration::from_secs(90);
/// The lease of those who find what they were looking for.
const LEASE: Duration = Duration::from_secs(30);

pub(super) async fn run(provider: Arc<dyn Provider>, mut orders: Orders) -> Result<(), Fault> {
    let client = Arc::new(Client::new(provider.clone()));
    answer(&())?;
    while let Some(order) = orders.next().await? {
        match order {
            Order::Pace { kind, prefix, count, every } => {
                answer(&pace(&client, kind, &prefix, count, every).await?)?;
            }
            Order::Burst { kind, prefix, count, callers } => {
                answer(&burst(&client, kind, &prefix, count, callers).await?)?;
            }
            Order::Probe { prefix, after } => answer(&probe(&provider, &client, &prefix, after).await?)?,
            Order::Report => return Err(MISDIRECTED.into()),
        }
    }
    Ok(())
}

async fn start(client: &Client, kind: Kind, instance: String) -> Result<Sent, Fault> {
    let at_ns = now_ns();
    client.start_orchestration(&instance, kind.name(), instance.as_str()).await?;
    Ok(Sent { instance, at_ns })
}

/// One in each turn of `every`, early or late in it: at equal distances they would keep step with whoever polls.
async fn pace(
    client: &Client,
    kind: Kind,
    prefix: &str,
    count: usize,
    every: Duration,
) -> Result<Vec<Sent>, Fault> {
    const SPREAD: f64 = 0.618_033_988_75; // multiples of it, without their whole parts, lie evenly
    let begun = tokio::time::Instant::now();
    let (mut sent, mut turn, mut part) = (Vec::new(), begun, 0.0_f64);
    for n in 0..count {
        tokio::time::sleep_until(turn + every.mul_f64(part)).await;
        sent.push(start(client, kind, format!("{prefix}-{n}")).await?);
        turn += every;
        part = (part + SPREAD).fract();
    }
    Ok(sent)
}

async fn burst(
    client: &Arc<Client>,
    kind: Kind,
    prefix: &str,
    count: usize,
    callers: usize,
) -> Result<Vec<Sent>, Fault> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (client, next, prefix) = (client.clone(), next.clone(), prefix.to_owned());
        tasks.spawn(async move {
            let mut sent = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return Ok::<_, Fault>(sent);
                }
                sent.push(start(&client, kind, format!("{prefix}-{n}")).await?);
            }
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended??);
    }
    Ok(all)
}

/// A claimed turn, and the moment before the call that claimed it.
struct Claimed {
    item: OrchestrationItem,
    token: String,
    asked_ns: i64,
}

/// As a runtime's dispatcher does it.
async fn fetch(provider: &Arc<dyn Provider>, lease: Duration) -> Result<Claimed, Fault> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let (asked, asked_ns) = (Instant::now(), now_ns());
        if let Some((item, token, _)) = provider.fetch_orchestration_item(lease, POLL_TIMEOUT, None).await? {
            return Ok(Claimed { item, token, asked_ns });
        }
        tokio::time::sleep(MIN_POLL_INTERVAL.saturating_sub(asked.elapsed())).await;
    }
    Err("a turn was never found".into())
}

/// Two turns are claimed. One is never heard of again, as if its node were gone; the other is given back with a delay. Two dispatchers wait for
/// them.
async fn probe(
    provider: &Arc<dyn Provider>,
    client: &Client,
    prefix: &str,
    after: Duration,
) -> Result<Late, Fault> {
    let [gone, back] = ["gone", "back"].map(|name| format!("{prefix}-{name}"));
    start(client, Kind::NoOp, gone.clone()).await?;
    let lease_from = fetch(provider, after).await?.asked_ns;
    start(client, Kind::NoOp, back.clone()).await?;
    let claimed = fetch(provider, LEASE).await?;
    let abandon_from = now_ns();
    provider.abandon_orchestration_item(&claimed.token, Some(after), false).await?;
    let (one, two) = tokio::join!(find(provider), find(provider));
    let mut late = Late { lease_ms: f64::NAN, abandon_ms: f64::NAN };
    for (instance, at_ns) in [one?, two?] {
        let since = |from: i64| ms(at_ns - from) - after.as_secs_f64() * 1e3;
        if instance == gone {
            late.lease_ms = since(lease_from);
        } else if instance == back {
            late.abandon_ms = since(abandon_from);
        }
    }
    Ok(late)
}

/// Waits for a turn and ends it. When was it there?
async fn find(provider: &Arc<dyn Provider>) -> Result<(String, i64), Fault> {
    let Claimed { item, token, .. } = fetch(provider, LEASE).await?;
    let at_ns = now_ns();
    let metadata = ExecutionMetadata {
        orchestration_name: Some(item.orchestration_name),
        orchestration_version: Some(item.version),
        status: Some("Completed".to_owned()),
        ..ExecutionMetadata::default()
    };
    let (events, work, messages, cancelled) = Default::default();
    provider
        .ack_orchestration_item(&token, item.execution_id, events, work, messages, metadata, cancelled)
        .await?;
    Ok((item.instance, at_ns))
}

/// Milliseconds of nanoseconds, before or after.
fn ms(ns: i64) -> f64 {
    let size = Duration::from_nanos(ns.unsigned_abs()).as_secs_f64() * 1e3;
    if ns < 0 { -size } else { size }
}
