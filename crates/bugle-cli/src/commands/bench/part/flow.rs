//! A node of workflows: coordinators for each of its worker sets, whose handlers do nothing.

use super::super::flow::HANDLERS;
use super::super::wire::{Looks, Order};
use super::{Orders, answer, misdirected};
use crate::failure::Failure;
use bugle::pg::connect;
use bugle::wake_engine::{Node, Why};
use bugle::{Bugle, Options, Verdict};
use sqlx::postgres::PgConnectOptions;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CONNECTIONS_MAX: u32 = 16;
const DRAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(
    connect: PgConnectOptions,
    sets: &[String],
    slots: u32,
    namespaces: usize,
    mut orders: Orders,
) -> Result<(), Failure> {
    let options = connect::Options { connections_max: CONNECTIONS_MAX, ..connect::Options::from(connect) };
    let bugle = Bugle::new(connect::pool(&options).await?, Options::default()).await?;
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    for set in sets {
        let mut coordinators = bugle.flow().coordinators(set).slots(slots - 1).each(1, slots).drain(DRAIN);
        for name in HANDLERS {
            coordinators = coordinators.handle(name, |_| async { Verdict::Done });
        }
        let board = coordinators.board();
        running.spawn(coordinators.run(stop.clone()));
        while board.active().len() < namespaces {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    answer(&())?;
    while let Some(order) = orders.next().await? {
        match order {
            Order::Looks => answer(&looks(bugle.node()))?,
            _ => return Err(misdirected()),
        }
    }
    stop.cancel();
    running.join_all().await;
    Ok(())
}

/// Reasons for looks so far, and those among them that were no heartbeat.
fn looks(node: Option<&Node>) -> Looks {
    let Some(node) = node else { return Looks::default() };
    let counters = node.counters();
    let beyond = Why::ALL.into_iter().filter(|why| *why != Why::Heartbeat);
    Looks {
        beyond: beyond.map(|why| (why.as_str().to_owned(), counters.looks_by(why))).collect(),
        heartbeats: counters.heartbeats.get(),
    }
}
