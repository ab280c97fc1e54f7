//! A node: one worker for each of its queues, whose handler only looks at the clock, or looks at it and never ends.

use super::super::clock::now_ns;
use super::super::wire::{Order, Report, Started};
use super::{Orders, Starts, answer, misdirected, producer};
use crate::failure::Failure;
use bugle::jobs::Claimed;
use bugle::pg::connect;
use bugle::{Bugle, Ctx, Options, Verdict};
use sqlx::postgres::PgConnectOptions;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const DRAIN: Duration = Duration::from_secs(1);
/// Connections of a node: some for one queue, and not one for each of a hundred.
const CONNECTIONS_MIN: usize = 8;
const CONNECTIONS_MAX: usize = 16;

/// `stuck`: the handlers never end, under a lease of this length.
pub(super) async fn run(
    connect: PgConnectOptions,
    queues: &[String],
    slots: u32,
    stuck: Option<Duration>,
    mut orders: Orders,
) -> Result<(), Failure> {
    let connections = queues.len().clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
    let options = connect::Options {
        connections_max: u32::try_from(connections).unwrap_or(1),
        ..connect::Options::from(connect)
    };
    let bugle = Bugle::new(connect::pool(&options).await?, Options::default()).await?;
    let (starts, stop) = (Starts::default(), CancellationToken::new());
    let mut workers = JoinSet::new();
    for queue in queues {
        let starts = starts.clone();
        let worker = bugle.worker(queue).concurrency(slots).drain(DRAIN);
        let worker = match stuck {
            Some(lease) => worker.lease(lease),
            None => worker,
        };
        let worker = worker.handle_any(move |claimed: Claimed, _: Ctx| {
            let due_us = claimed.due_at.timestamp_micros();
            starts.add(Started { id: claimed.id.0, at_ns: now_ns(), due_us });
            async move {
                if stuck.is_some() {
                    std::future::pending::<()>().await;
                }
                Verdict::Done
            }
        });
        workers.spawn(worker.run(stop.clone()));
    }
    answer(&())?;
    loop {
        let order = tokio::select! {
            order = orders.next() => order?,
            Some(ended) = workers.join_next() => {
                ended.map_err(|e| Failure::server(e.to_string()))??;
                return Err(Failure::server("a worker of the benchmark ended before it was told to"));
            }
        };
        match order {
            Some(Order::Report) => {
                answer(&Report { started: starts.take(), fallback_hits: fallback_hits(&bugle) })?;
            }
            Some(Order::Pace { queue, rate, length, .. }) => {
                answer(&producer::pace(producer::of_node(&bugle, &queue, rate), rate, length).await?)?;
            }
            Some(_) => return Err(misdirected()),
            None => break,
        }
    }
    stop.cancel();
    workers.join_all().await;
    Ok(())
}

/// Work that this node's fallback look found and no wake had announced.
fn fallback_hits(bugle: &Bugle) -> Option<u64> {
    bugle.node().map(|node| node.counters().fallback_hits.get())
}
