//! Many producers on one partition, and a consumer behind them: is anything lost, and does each producer's order hold?

use super::super::callers::broken;
use super::caller::Caller;
use crate::failure::Failure;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(super) const PRODUCERS: usize = 16;
/// Messages that a pop asks for.
const POP: usize = 1_000;
/// When nothing has come for so long, nothing more will.
const SILENCE: Duration = Duration::from_secs(10);

/// What came of it.
pub(super) struct Losses {
    pub(super) pushed: usize,
    /// Never came.
    pub(super) lost: usize,
    /// Came before one that its producer had pushed earlier, or twice.
    pub(super) out_of_order: usize,
}

/// What a message tells.
#[derive(Deserialize)]
struct Mark {
    producer: usize,
    n: usize,
}

/// Pushes so many messages into one partition, one to three a request, by all producers at once, while one consumer pops and acks.
pub(super) async fn run(address: SocketAddr, queue: &str, messages: usize) -> Result<Losses, Failure> {
    let each = messages / PRODUCERS;
    let mut producing = JoinSet::new();
    for (producer, caller) in Caller::many(address, PRODUCERS).await?.into_iter().enumerate() {
        producing.spawn(produce(caller, queue.to_owned(), producer, each));
    }
    let consuming = tokio::spawn(consume(Caller::connect(address).await?, queue.to_owned(), each));
    while let Some(ended) = producing.join_next().await {
        ended.map_err(broken)??;
    }
    consuming.await.map_err(broken)?
}

async fn produce(mut caller: Caller, queue: String, producer: usize, each: usize) -> Result<(), Failure> {
    let mut n = 0;
    while n < each {
        let batch = (1 + n % 3).min(each - n);
        let item = |n| json!({"queue": queue, "partition": "p0", "payload": {"producer": producer, "n": n}});
        let items: Vec<_> = (n..n + batch).map(item).collect();
        caller.push(Bytes::from(json!({ "items": items }).to_string())).await?;
        n += batch;
    }
    Ok(())
}

/// Until everything has come, or nothing comes any more.
async fn consume(mut caller: Caller, queue: String, each: usize) -> Result<Losses, Failure> {
    let path = format!("/api/v1/pop/queue/{queue}?batch={POP}&wait=true&timeout=1000");
    let (mut next, mut got, mut out_of_order) = ([0; PRODUCERS], 0, 0);
    let mut seen = vec![vec![false; each]; PRODUCERS];
    let mut last = Instant::now();
    while got < each * PRODUCERS && last.elapsed() < SILENCE {
        let Some(popped) = caller.pop(&path).await? else { continue };
        last = Instant::now();
        for message in &popped.messages {
            let mark: Mark =
                serde_json::from_str(message.data.get()).map_err(|e| Failure::server(e.to_string()))?;
            out_of_order += usize::from(mark.n != next[mark.producer]);
            next[mark.producer] = mark.n + 1;
            got += usize::from(!std::mem::replace(&mut seen[mark.producer][mark.n], true));
        }
        caller.ack(&popped).await?;
    }
    Ok(Losses { pushed: each * PRODUCERS, lost: each * PRODUCERS - got, out_of_order })
}
