//! The consumer that Bugle is compared with: one connection that hears NOTIFY and takes row by row.

use super::super::clock::now_ns;
use super::super::wire::{Order, Report, Started};
use super::{Orders, Starts, answer, misdirected};
use crate::failure::Failure;
use bugle::pg::connect;
use sqlx::postgres::{PgConnectOptions, PgListener};

pub(super) async fn run(connect: PgConnectOptions, mut orders: Orders) -> Result<(), Failure> {
    let options = connect::Options { connections_max: 1, ..connect::Options::from(connect) };
    let mut listener = PgListener::connect_with(&connect::pool(&options).await?).await?;
    listener.listen("bench").await?;
    let starts = Starts::default();
    let mut consumer = tokio::spawn(consume(listener, starts.clone()));
    answer(&())?;
    loop {
        let order = tokio::select! {
            order = orders.next() => order?,
            ended = &mut consumer => {
                return ended.map_err(|e| Failure::server(e.to_string()))?;
            }
        };
        match order {
            Some(Order::Report) => answer(&Report { started: starts.take(), fallback_hits: None })?,
            Some(_) => return Err(misdirected()),
            None => return Ok(()),
        }
    }
}

/// Takes what there is, then waits for a notification.
async fn consume(mut listener: PgListener, starts: Starts) -> Result<(), Failure> {
    loop {
        // Before the look: one that comes during it may speak of a row that it does not see.
        while listener.next_buffered().is_some() {}
        loop {
            let row: Option<i64> = sqlx::query_scalar(include_str!("../sql/bare_take.sql"))
                .fetch_optional(&mut listener)
                .await?;
            let Some(id) = row else { break };
            starts.add(Started { id, at_ns: now_ns(), due_us: 0 });
        }
        listener.recv().await?;
    }
}
