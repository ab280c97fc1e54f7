//! Pushes, pops and acks at the same time, while somebody holds a snapshot.

use super::super::callers::broken;
use super::super::ground::Ground;
use super::super::hold::Flow;
use super::caller::Caller;
use super::load::body;
use crate::failure::Failure;
use sqlx::{Connection as _, PgConnection};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// Clients, each with a partition of its own.
const CLIENTS: usize = 20;
/// Messages of a push, a pop and an ack.
const BATCH: usize = 10;

/// Messages a second in each window.
pub(super) async fn run(
    ground: &Ground,
    address: SocketAddr,
    queue: &str,
    flow: Flow,
) -> Result<Vec<f64>, Failure> {
    let mut holder = PgConnection::connect_with(&ground.connect()).await?;
    sqlx::raw_sql(include_str!("../sql/hold.sql")).execute(&mut holder).await?;
    let (acked, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for (nth, caller) in Caller::many(address, CLIENTS).await?.into_iter().enumerate() {
        tasks.spawn(go_round(caller, queue.to_owned(), nth, acked.clone()));
    }
    let (windows, _) = tokio::select! {
        windows = flow.watch(&acked) => windows,
        Some(ended) = tasks.join_next() => return Err(ended.map_err(broken)?),
    };
    tasks.shutdown().await;
    holder.close().await?;
    Ok(windows)
}

/// Until it fails.
async fn go_round(mut caller: Caller, queue: String, nth: usize, acked: Arc<AtomicUsize>) -> Failure {
    let messages = body(&queue, nth, BATCH);
    let path = format!("/api/v1/pop/queue/{queue}/partition/p{nth}?batch={BATCH}");
    loop {
        if let Err(failure) = caller.push(messages.clone()).await {
            return failure;
        }
        match caller.pop(&path).await {
            Ok(Some(popped)) => match caller.ack(&popped).await {
                Ok(()) => acked.fetch_add(popped.messages.len(), Ordering::Relaxed),
                Err(failure) => return failure,
            },
            Ok(None) => 0,
            Err(failure) => return failure,
        };
    }
}
