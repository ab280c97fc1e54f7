//! Callers that push, or pop and ack, as fast as it goes.

use super::super::callers::broken;
use super::super::payload::payload;
use super::caller::Caller;
use crate::failure::Failure;
use bytes::Bytes;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Messages go to so many partitions of a queue.
pub(super) const PARTITIONS: usize = 100;
/// Messages that a pop asks for.
pub(super) const POP: usize = 100;
/// Connections that write what is popped later.
const FILLERS: usize = 8;
/// Requests of each caller before the clock starts.
const WARM_UP: usize = 5;

/// What callers did together.
pub(super) struct Done {
    pub(super) messages: usize,
    pub(super) took: Duration,
    /// Of each request, in milliseconds.
    pub(super) requests: Vec<f64>,
}

impl Done {
    fn none() -> Self {
        Self { messages: 0, took: Duration::ZERO, requests: Vec::new() }
    }

    pub(super) fn per_s(&self) -> f64 {
        super::super::figure::rate(self.messages, self.took)
    }

    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.took = self.took.max(other.took);
        self.requests.extend(other.requests);
    }
}

/// The body of a push of so many messages to one partition.
pub(super) fn body(queue: &str, partition: usize, messages: usize) -> Bytes {
    let item = json!({"queue": queue, "partition": format!("p{partition}"), "payload": payload()});
    json!({"items": vec![item; messages]}).to_string().into()
}

/// So many callers push so many messages at a time, each to one partition after the other, for some time.
pub(super) async fn push(
    address: SocketAddr,
    callers: usize,
    queue: &str,
    messages: usize,
    length: Duration,
) -> Result<Done, Failure> {
    let bodies: Arc<[Bytes]> = (0..PARTITIONS).map(|partition| body(queue, partition, messages)).collect();
    all(address, callers, |nth, mut caller, barrier| {
        let bodies = bodies.clone();
        async move {
            let mut partitions = (0..bodies.len()).cycle().skip(nth * 7); // not all in step
            let mut next = || bodies[partitions.next().unwrap_or_default()].clone();
            for _ in 0..WARM_UP {
                caller.push(next()).await?;
            }
            barrier.wait().await;
            let (begun, mut done) = (Instant::now(), Done::none());
            while begun.elapsed() < length {
                let sent = Instant::now();
                caller.push(next()).await?;
                done.requests.push(milliseconds(sent.elapsed()));
                done.messages += messages;
            }
            done.took = begun.elapsed();
            Ok(done)
        }
    })
    .await
}

/// Writes so many messages to all partitions of a queue.
pub(super) async fn fill(address: SocketAddr, queue: &str, messages: usize) -> Result<(), Failure> {
    let requests = Arc::new(AtomicUsize::new(0));
    let filled = all(address, FILLERS, |_, mut caller, _| {
        let (queue, requests) = (queue.to_owned(), requests.clone());
        async move {
            loop {
                let nth = requests.fetch_add(1, Ordering::Relaxed);
                if nth * POP >= messages {
                    return Ok(Done::none());
                }
                caller.push(body(&queue, nth % PARTITIONS, POP)).await?;
            }
        }
    });
    filled.await.map(drop)
}

/// How what was popped is acked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Acks {
    /// With a request of its own.
    Own,
    /// By the pop.
    Auto,
}

/// So many callers pop for a group until they have got so many messages together.
pub(super) async fn pop(
    address: SocketAddr,
    callers: usize,
    (queue, group): (&str, &str),
    acks: Acks,
    messages: usize,
) -> Result<Done, Failure> {
    let auto = acks == Acks::Auto;
    let path = format!("/api/v1/pop/queue/{queue}?batch={POP}&consumerGroup={group}&autoAck={auto}");
    let (path, left): (Arc<str>, _) = (path.into(), Arc::new(AtomicUsize::new(messages)));
    all(address, callers, |_, mut caller, barrier| {
        let (path, left) = (path.clone(), left.clone());
        async move {
            barrier.wait().await;
            let (begun, mut done) = (Instant::now(), Done::none());
            while left.load(Ordering::Relaxed) > 0 {
                let sent = Instant::now();
                let Some(popped) = caller.pop(&path).await? else { continue };
                if !auto {
                    caller.ack(&popped).await?;
                }
                done.requests.push(milliseconds(sent.elapsed()));
                let count = popped.messages.len();
                done.messages += count;
                let less = |left: usize| Some(left.saturating_sub(count));
                let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            done.took = begun.elapsed();
            Ok(done)
        }
    })
    .await
}

/// Lets each caller do its work, which begins at the barrier.
async fn all<F>(
    address: SocketAddr,
    callers: usize,
    work: impl Fn(usize, Caller, Arc<Barrier>) -> F,
) -> Result<Done, Failure>
where
    F: Future<Output = Result<Done, Failure>> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(callers));
    let mut tasks = JoinSet::new();
    for (nth, caller) in Caller::many(address, callers).await?.into_iter().enumerate() {
        tasks.spawn(work(nth, caller, barrier.clone()));
    }
    let mut done = Done::none();
    while let Some(ended) = tasks.join_next().await {
        done.add(ended.map_err(broken)??);
    }
    Ok(done)
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
