//! Pops that wait: how fast a push reaches one of them, and what they cost while nothing comes.

use super::caller::Caller;
use super::load::{PARTITIONS, milliseconds};
use crate::failure::Failure;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a pop waits; then it asks again.
const WAIT: Duration = Duration::from_mins(10);
/// Until those who have asked are known to the server: so long, and so long for each.
const SETTLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_micros(300));
/// From one partition to the next: a prime, so that messages meet all of them.
const STRIDE: usize = 7_919;
/// A message that has not come by then is lost.
const COMES_WITHIN: Duration = Duration::from_secs(30);

/// Where they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// All on one queue, whatever partition.
    OneQueue,
    /// Each on a partition of its own.
    OwnPartition,
    /// Divided among so many queues, whatever partition.
    Queues(usize),
}

impl Layout {
    pub(super) fn name(self) -> String {
        match self {
            Self::OneQueue => "one queue".to_owned(),
            Self::OwnPartition => "a partition each".to_owned(),
            Self::Queues(queues) => format!("{queues} queues"),
        }
    }

    /// Where the nth message goes. All who wait apart from each other are to be woken in turn, not the first ones alone.
    fn place(self, queue: &str, nth: usize, waiters: usize) -> (String, usize) {
        match self {
            Self::OneQueue => (queue.to_owned(), nth % PARTITIONS),
            Self::OwnPartition => (queue.to_owned(), nth * STRIDE % waiters.max(1)),
            Self::Queues(queues) => (format!("{queue}-{}", nth * STRIDE % queues), nth % PARTITIONS),
        }
    }

    fn path(self, queue: &str, nth: usize) -> String {
        let place = match self {
            Self::OneQueue => queue.to_owned(),
            Self::OwnPartition => format!("{queue}/partition/p{nth}"),
            Self::Queues(queues) => format!("{queue}-{}", nth % queues),
        };
        format!("/api/v1/pop/queue/{place}?wait=true&timeout={}", WAIT.as_millis())
    }
}

/// Clients that wait, ack what they get at once, and wait again.
pub(super) struct Waiters {
    tasks: JoinSet<Result<(), Failure>>,
    got: UnboundedReceiver<f64>,
    layout: Layout,
    queue: String,
    count: usize,
}

/// What a message tells: when its push was sent.
#[derive(Deserialize)]
struct Stamp {
    at_ns: u64,
}

impl Waiters {
    /// Returns when all of them wait.
    pub(super) async fn start(
        address: SocketAddr,
        queue: &str,
        layout: Layout,
        count: usize,
        clock: Instant,
    ) -> Result<Self, Failure> {
        let (tell, got) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for nth in 0..count {
            let (caller, path) = (Caller::connect(address).await?, layout.path(queue, nth));
            tasks.spawn(wait(caller, path, clock, tell.clone()));
        }
        sleep(SETTLE.0 + SETTLE.1 * u32::try_from(count).unwrap_or(u32::MAX)).await;
        Ok(Self { tasks, got, layout, queue: queue.to_owned(), count })
    }

    /// Pushes one message after the other, to partitions in turn: how long each took from before its push until a waiter had it, in milliseconds.
    pub(super) async fn latencies(
        &mut self,
        address: SocketAddr,
        pushes: usize,
        pause: Duration,
        clock: Instant,
    ) -> Result<Vec<f64>, Failure> {
        let mut producer = Caller::connect(address).await?;
        let mut latencies = Vec::with_capacity(pushes);
        for n in 0..pushes {
            let (queue, partition) = self.layout.place(&self.queue, n, self.count);
            let at_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let item =
                json!({"queue": queue, "partition": format!("p{partition}"), "payload": {"at_ns": at_ns}});
            producer.push(Bytes::from(json!({"items": [item]}).to_string())).await?;
            latencies.push(self.next().await?);
            sleep(pause).await;
        }
        Ok(latencies)
    }

    async fn next(&mut self) -> Result<f64, Failure> {
        tokio::select! {
            got = tokio::time::timeout(COMES_WITHIN, self.got.recv()) => match got {
                Ok(Some(latency)) => Ok(latency),
                _ => Err(Failure::server(format!("a message did not come within {COMES_WITHIN:?}, with {} that wait on {}", self.count, self.layout.name()))),
            },
            Some(ended) = self.tasks.join_next() => {
                ended.map_err(super::super::callers::broken)??;
                Err(Failure::server("a client ended before it was told to"))
            }
        }
    }

    /// They hang up.
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn wait(
    mut caller: Caller,
    path: String,
    clock: Instant,
    tell: UnboundedSender<f64>,
) -> Result<(), Failure> {
    loop {
        let Some(popped) = caller.pop(&path).await? else { continue };
        let now = clock.elapsed();
        caller.ack(&popped).await?;
        for message in &popped.messages {
            let stamp: Stamp =
                serde_json::from_str(message.data.get()).map_err(|e| Failure::server(e.to_string()))?;
            let _ = tell.send(milliseconds(now.saturating_sub(Duration::from_nanos(stamp.at_ns))));
        }
    }
}
