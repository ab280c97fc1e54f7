//! Phase d: what an idle worker asks of the database.

use super::super::callers::broken;
use super::super::figure::{rate, rounded};
use super::settings::Settings;
use crate::failure::Failure;
use bugle::jobs::Claimed;
use bugle::{Bugle, Ctx, Verdict};
use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, Row as _};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "contender_d";
const SLOTS: u32 = 4;
/// An idle session adds what it did to the statistics within ten seconds.
const SETTLE_MAX: Duration = Duration::from_secs(11);
/// Each reading is one transaction, which the next reading sees.
const OWN_TRANSACTIONS: i64 = 1;

#[derive(Serialize)]
pub(super) struct Answer {
    xact_per_s: f64,
    connections: i64,
    settings: String,
}

/// Transactions of the database so far, and connections to it, this one not among them.
struct Reading {
    transactions: i64,
    connections: i64,
    at: Instant,
}

pub(super) async fn measure(
    bugle: &Bugle,
    connect: &PgConnectOptions,
    settings: &Settings,
) -> Result<Answer, Failure> {
    let stop = CancellationToken::new();
    let worker =
        bugle.worker(QUEUE).concurrency(SLOTS).handle_any(|_: Claimed, _: Ctx| async { Verdict::Done });
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(settings.idle.min(SETTLE_MAX)).await;
    let before = read(connect).await?;
    tokio::time::sleep(settings.idle).await;
    let after = read(connect).await?;
    stop.cancel();
    running.await.map_err(broken)??;
    let transactions = after.transactions - before.transactions - OWN_TRANSACTIONS;
    Ok(Answer {
        xact_per_s: rounded(rate(usize::try_from(transactions).unwrap_or(0), after.at - before.at), 3),
        connections: after.connections,
        settings: format!("one worker, {SLOTS} slots, mode hybrid, heartbeat as by default"),
    })
}

/// Reads on a connection that ends with it, so that nothing of it is pending, and without a statement to prepare, which would be a
/// transaction more.
async fn read(connect: &PgConnectOptions) -> Result<Reading, Failure> {
    let mut connection = PgConnection::connect_with(connect).await?;
    let row = sqlx::raw_sql(include_str!("../sql/transactions.sql")).fetch_one(&mut connection).await?;
    let at = Instant::now();
    connection.close().await?;
    Ok(Reading { transactions: row.try_get("transactions")?, connections: row.try_get("connections")?, at })
}
