//! Producers and consumers of messages, every call recorded before it is sent and after it was answered.

use crate::history::{Call, Event, Item, Op, RecorderClient};
use bugle::broker::{Broker, Message, Pop, Popped, Receipt, Settlement, Verdict};
use bugle::{Bugle, Error, Outcome};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::value::RawValue;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Partitions of the queue.
pub const PARTITIONS: u32 = 5;
/// Its groups.
pub const GROUPS: [&str; 2] = ["mailer", "audit"];
/// Most messages that a group is behind; beyond it producers wait, so that a run can be drained in time.
pub const LAG_MAX: i64 = 400;
/// Before a call that was not answered with yes is made again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a pop waits.
const WAIT: Duration = Duration::from_millis(400);
/// Consumers of one crowd.
const CROWD: usize = 1_000;

/// A client of the broker whose every call goes into the history.
#[derive(Clone)]
pub struct Messenger {
    broker: Broker,
    queue: String,
    recorder: RecorderClient,
    who: String,
    lease: Duration,
}

impl Messenger {
    /// Calls by `who` on the queue `queue`.
    #[must_use]
    pub fn new(bugle: &Bugle, queue: &str, recorder: RecorderClient, who: &str, lease: Duration) -> Self {
        let (queue, who) = (queue.to_owned(), who.to_owned());
        Self { broker: bugle.broker(), queue, recorder, who, lease }
    }

    fn event(&self, op: Op) -> Event {
        Event::new(&self.who, op).queue(&self.queue)
    }

    /// Pushes a message for each mark, with the mark as its key; `false`: it was not answered with yes.
    pub async fn push(&self, partition: &str, marks: &[u64]) -> anyhow::Result<bool> {
        let item =
            |mark: &u64| Item { mark: Some(*mark), partition: Some(partition.into()), ..Item::default() };
        let call = self.recorder.invoke(self.event(Op::Push).items(marks.iter().map(item)))?;
        let message = |mark: &u64| -> anyhow::Result<Message> {
            let payload = RawValue::from_string(mark.to_string())?;
            Ok(Message::new(&self.queue, payload)?.partition(partition)?.key(&mark.to_string())?)
        };
        let messages = marks.iter().map(message).collect::<anyhow::Result<Vec<_>>>()?;
        let answer =
            self.broker.push(messages).await.and_then(|all| all.into_iter().collect::<Result<Vec<_>, _>>());
        match answer {
            Ok(pushed) => {
                call.ok(|event| event.items(pushed.iter().map(|p| Item { seq: p.seq, ..Item::default() })))?;
                Ok(true)
            }
            Err(error) => not_done(&call, &error).map(|()| false),
        }
    }

    /// Pops, waiting for something.
    pub async fn pop(&self, group: &str, most: u32, partitions: u32) -> anyhow::Result<Option<Popped>> {
        self.pop_unless(group, most, partitions, std::future::pending()).await
    }

    /// The same, but the consumer goes away when `gone` comes first: whatever is claimed for it then, nobody has seen.
    pub async fn pop_unless(
        &self,
        group: &str,
        most: u32,
        partitions: u32,
        gone: impl Future<Output = ()>,
    ) -> anyhow::Result<Option<Popped>> {
        let pop =
            Pop::new(&self.queue)?.group(group)?.most(most)?.partitions(partitions)?.lease(self.lease)?;
        let call = self.recorder.invoke(self.event(Op::Pop).group(group))?;
        let answer = tokio::select! {
            answer = self.broker.pop_within(&pop, WAIT) => answer,
            () = gone => {
                call.unknown("the consumer went away")?;
                return Ok(None);
            }
        };
        match answer {
            Ok(popped) => {
                let items = popped.iter().flat_map(handed_out).collect::<Vec<_>>();
                call.ok(|event| event.items(items))?;
                Ok(popped)
            }
            Err(error) => not_done(&call, &error).map(|()| None),
        }
    }

    /// Gives a verdict about messages of one pop; `false`: it was not answered.
    pub async fn settle(&self, popped: &Popped, which: &[usize], verdict: Verdict) -> anyhow::Result<bool> {
        let op = match verdict {
            Verdict::Ack => Op::Ack,
            Verdict::Release => Op::Release,
            _ => Op::Fail,
        };
        let receipts: Vec<Receipt> = popped.receipts().collect();
        let items: Vec<Item> = handed_out(popped);
        let named =
            |place: &usize| Item { mark: None, attempt: None, lease_until: None, ..items[*place].clone() };
        let call = self
            .recorder
            .invoke(self.event(op).group(popped.group.as_str()).items(which.iter().map(named)))?;
        let verdicts: Vec<_> = which.iter().map(|place| receipts[*place].settle(verdict)).collect();
        match self.broker.settle(&verdicts).await {
            Ok(settled) => {
                let is_lost = |s: Settlement| {
                    matches!(
                        s,
                        Settlement::Lost | Settlement::Missing | Settlement::Passed | Settlement::Returned
                    )
                };
                let (lost, ok): (Vec<_>, Vec<_>) =
                    which.iter().zip(&settled).partition(|(_, settled)| is_lost(settled.settlement));
                if !ok.is_empty() {
                    call.ok(|event| event.items(ok.iter().map(|(place, _)| named(place))))?;
                }
                if !lost.is_empty() {
                    let lost = lost.iter().map(|(place, _)| named(place));
                    call.refused(|event| event.items(lost).cause("lost"))?;
                }
                Ok(true)
            }
            Err(error) => not_done(&call, &error).map(|()| false),
        }
    }

    /// Acks all of a pop, again and again until that is answered.
    pub async fn ack_all(&self, popped: &Popped) -> anyhow::Result<()> {
        let all: Vec<usize> = (0..popped.messages.len()).collect();
        for _ in 0..20 {
            if self.settle(popped, &all, Verdict::Ack).await? {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// How far the group is behind that is furthest; `None`: the database does not answer.
    pub async fn lag(&self) -> Option<i64> {
        let groups = self.broker.list_groups(Some(&self.queue)).await.ok()?;
        groups.iter().map(|group| group.lag).max()
    }
}

/// A token as histories have them.
#[must_use]
pub fn token(token: Uuid) -> i64 {
    let (_, random) = token.as_u64_pair();
    random.cast_signed()
}

fn handed_out(popped: &Popped) -> Vec<Item> {
    let item = |message: &bugle::broker::Delivered| Item {
        partition: Some((&*message.partition_name).into()),
        seq: Some(message.seq),
        mark: message.payload.parse().ok(),
        attempt: Some(message.tries),
        token: Some(token(popped.token)),
        lease_until: message.until,
        ..Item::default()
    };
    popped.messages.iter().map(item).collect()
}

fn not_done(call: &Call, error: &Error) -> anyhow::Result<()> {
    match error.outcome() {
        Outcome::Refused => call.refused(|event| event.cause(&error.to_string()))?,
        Outcome::Unknown => call.unknown(&error.to_string())?,
    }
    Ok(())
}

/// Pushes until told to stop, each message until that is answered with yes. `number` makes its marks unlike those of others.
pub(super) async fn produce(
    client: Messenger,
    number: u32,
    seed: u64,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut marks = (u64::from(number) << 32) + 1..;
    while !stop.is_cancelled() {
        let some: Vec<u64> = marks.by_ref().take(rng.random_range(1..=6)).collect();
        let partition = format!("p{}", rng.random_range(0..PARTITIONS));
        while !stop.is_cancelled() && !client.push(&partition, &some).await? {
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..10))).await;
        while !stop.is_cancelled() && client.lag().await.is_none_or(|lag| lag > LAG_MAX) {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Pops and settles in every way there is, also badly, until told to stop.
pub(super) async fn consume(client: Messenger, seed: u64, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    while !stop.is_cancelled() {
        let group = GROUPS[rng.random_range(0..GROUPS.len())];
        let (most, partitions) = ([1, 3, 10, 40][rng.random_range(0..4)], rng.random_range(1..=3));
        let Some(popped) = client.pop(group, most, partitions).await? else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        settle(&client, &popped, &mut rng).await?;
    }
    Ok(())
}

async fn settle(client: &Messenger, popped: &Popped, rng: &mut StdRng) -> anyhow::Result<()> {
    let all: Vec<usize> = (0..popped.messages.len()).collect();
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..10))).await;
    match rng.random_range(0..20) {
        0..=12 => client.ack_all(popped).await?,
        13 => drop(client.settle(popped, &all[..1], Verdict::Retry).await?),
        14..=15 => {
            // The first of each partition is done, then all is given back: what was acked does not come again.
            let mut firsts = all.clone();
            firsts.dedup_by_key(|place| popped.messages[*place].partition);
            client.settle(popped, &firsts, Verdict::Ack).await?;
            client.settle(popped, &firsts, Verdict::Release).await?;
        }
        16 => drop(client.settle(popped, &all, Verdict::Release).await?),
        17 => {
            // Too late: whatever was handed to somebody else must be refused.
            tokio::time::sleep(client.lease + client.lease / 4).await;
            client.settle(popped, &all, Verdict::Ack).await?;
        }
        18 => {
            client.ack_all(popped).await?;
            client.ack_all(popped).await?; // again: an ack may be repeated
        }
        _ => {} // forgotten: the lease has to end by itself
    }
    Ok(())
}

/// A crowd: each waits for one message at a time and acks it, until told to stop. Every other one goes away now and then while it waits,
/// if it is `fickle`.
pub(super) async fn crowd(client: Messenger, fickle: bool, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut crowd = tokio::task::JoinSet::new();
    for member in 0..if fickle { CROWD / 20 } else { CROWD } {
        let (client, stop) = (client.clone(), stop.clone());
        crowd.spawn(async move {
            let group = GROUPS[member % GROUPS.len()];
            while !stop.is_cancelled() {
                let patience = Duration::from_millis(rand::random_range(0..40));
                let gone = async {
                    if fickle {
                        tokio::time::sleep(patience).await;
                    } else {
                        std::future::pending::<()>().await;
                    }
                };
                let Some(popped) = client.pop_unless(group, 1, 1, gone).await? else { continue };
                client.ack_all(&popped).await?;
            }
            anyhow::Ok(())
        });
    }
    crowd.join_all().await.into_iter().collect()
}
