//! Popping messages: claiming for a group, waiting if told to.

use super::group::Start;
use super::operate::Tags;
use super::sight::Wish;
use super::source::{Got, releases};
use super::{Broker, Popped};
use crate::Error;
use crate::jobs::enqueue::interval;
use crate::limits::{LEASE_SECONDS_MAX, POP_MESSAGES_MAX, POP_PARTITIONS_MAX};
use crate::name::{GroupName, PartitionName, QueueName};
use bugle_wake::{Intention, Number};
use sqlx::postgres::types::PgInterval;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a pop that does not wait looks again when others were faster.
const TRIES: usize = 5;

/// What a consumer wants: up to so many messages of a queue, for a group. Every value is checked once, here.
#[derive(Debug, Clone)]
pub struct Pop {
    pub(super) place: Place,
    pub(super) group: GroupName,
    most: u32,
    partitions: u32,
    lease: Option<PgInterval>,
    pub(super) auto_ack: bool,
    start: Start,
}

/// Where messages are popped from.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Queue(Arc<QueueName>, Option<PartitionName>),
    Tags(Tags),
}

/// The group of consumers that name none.
pub const QUEUE_MODE: &str = "__QUEUE_MODE__";

impl Pop {
    /// One message of any partition of a queue, for the group of those who name none, leased for as long as the queue says.
    pub fn new(queue: &str) -> Result<Self, Error> {
        Self::from_place(Place::Queue(Arc::new(QueueName::parse(queue)?), None))
    }

    /// The same of any queue with these tags, those that come later included. Queues of a higher priority go before.
    pub fn tagged(tags: Tags) -> Result<Self, Error> {
        Self::from_place(Place::Tags(tags))
    }

    fn from_place(place: Place) -> Result<Self, Error> {
        Ok(Self {
            place,
            group: GroupName::parse(QUEUE_MODE)?,
            most: 1,
            partitions: 1,
            lease: None,
            auto_ack: false,
            start: Start::All,
        })
    }

    /// Of this partition alone. Tags know no partitions.
    pub fn partition(mut self, name: &str) -> Result<Self, Error> {
        let name = PartitionName::parse(name)?;
        match &mut self.place {
            Place::Queue(_, partition) => *partition = Some(name),
            Place::Tags(_) => {
                let fault = format!("is {:?}, but queues are popped from by their tags", name.as_str());
                return Err(Error::Invalid { what: "partition", fault, next: "name the queue as well" });
            }
        }
        Ok(self)
    }

    /// For this group.
    pub fn group(mut self, name: &str) -> Result<Self, Error> {
        self.group = GroupName::parse(name)?;
        Ok(self)
    }

    /// At most so many messages, of all its partitions together.
    pub fn most(mut self, messages: u32) -> Result<Self, Error> {
        check("number of messages to pop", messages, POP_MESSAGES_MAX)?;
        self.most = messages;
        Ok(self)
    }

    /// Of up to so many partitions, under one lease. Of a partition that was named there is one.
    pub fn partitions(mut self, partitions: u32) -> Result<Self, Error> {
        check("number of partitions to pop from", partitions, POP_PARTITIONS_MAX)?;
        self.partitions = partitions;
        Ok(self)
    }

    /// Leased for so long, whatever the queue says.
    pub fn lease(mut self, lease: Duration) -> Result<Self, Error> {
        if lease.is_zero() || lease > Duration::from_secs(LEASE_SECONDS_MAX) {
            let fault = format!("is {lease:?}");
            return Err(Error::Invalid {
                what: "lease",
                fault,
                next: "use more than nothing and at most 24 hours",
            });
        }
        self.lease = Some(interval("lease", lease)?);
        Ok(self)
    }

    /// The claim acks them: what is not handled afterwards is lost.
    #[must_use]
    pub fn auto_ack(mut self, auto_ack: bool) -> Self {
        self.auto_ack = auto_ack;
        self
    }

    /// Where the group begins if it is new.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }
}

fn check(what: &'static str, value: u32, max: u32) -> Result<(), Error> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::Invalid {
        what,
        fault: format!("is {value}, not 1 to {max}"),
        next: "ask for less, or for something",
    })
}

/// What an intention says about itself. Thousands wait, and a look takes all of them along: what decides whether one is to be served stands here,
/// and the rest, which few need, behind one pointer.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    pub(super) group: i32,
    pub(super) wish: Wish,
    pub(super) who: Arc<Who>,
}

/// What only those need who are served.
#[derive(Debug)]
pub(crate) struct Who {
    pub(super) pop: Arc<Pop>,
    pub(super) queue: Arc<QueueName>,
}

impl Who {
    pub(super) fn lease(&self) -> Option<PgInterval> {
        self.pop.lease
    }
}

impl Broker {
    /// Claims what is there now; `None`: nothing is. A queue or partition that is not there is not made.
    pub async fn pop(&self, pop: &Pop) -> Result<Option<Popped>, Error> {
        let pop = Arc::new(pop.clone());
        match &pop.place {
            Place::Queue(queue, partition) => self.pop_now(&pop, queue, partition.as_ref()).await,
            Place::Tags(tags) => self.pop_tagged_now(&pop, tags).await,
        }
    }

    /// Like [`Broker::pop`], but waits up to `within` until there is something; `None`: there was nothing. A queue that is not there is made:
    /// somebody waits for it. However many wait, one look serves them all; each claimable partition goes to one of them, in the order of
    /// their calls.
    ///
    /// Dropping the future gives back at once what was claimed for it, not counted as a try.
    pub async fn pop_within(&self, pop: &Pop, within: Duration) -> Result<Option<Popped>, Error> {
        let (pop, deadline) = (Arc::new(pop.clone()), Instant::now() + within);
        match &pop.place {
            Place::Queue(queue, partition) => self.pop_until(&pop, queue, partition.as_ref(), deadline).await,
            Place::Tags(tags) => self.pop_tagged_until(&pop, tags, deadline).await,
        }
    }

    pub(super) async fn pop_now(
        &self,
        pop: &Arc<Pop>,
        queue: &Arc<QueueName>,
        partition: Option<&PartitionName>,
    ) -> Result<Option<Popped>, Error> {
        for _ in 0..TRIES {
            let Some(number) = self.find(queue).await? else { return Ok(None) };
            let Some(want) = self.want(pop, queue, number, partition, false).await? else { return Ok(None) };
            let answer = self.source().look_now(number, &want, pop.most).await?;
            match answer.item {
                Some(Got::Messages(popped)) => return Ok(Some(*popped)),
                Some(Got::GroupIsGone) => self.forget_names(queue, number, pop),
                None if answer.again == Some(Duration::ZERO) => {} // there is something: others took what was tried
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn pop_until(
        &self,
        pop: &Arc<Pop>,
        queue: &Arc<QueueName>,
        partition: Option<&PartitionName>,
        deadline: Instant,
    ) -> Result<Option<Popped>, Error> {
        loop {
            let number = self.declare(queue).await?;
            let Some(intention) = self.intend(pop, queue, number, partition).await? else { continue };
            match tokio::time::timeout_at(deadline, intention.next()).await {
                Ok(Some(Got::Messages(popped))) => return Ok(Some(*popped)),
                Ok(Some(Got::GroupIsGone)) => self.forget_names(queue, number, pop),
                Ok(None) => return Err(Error::NoConnection(sqlx::Error::PoolClosed)), // the engine was stopped
                Err(_) => return Ok(None),
            }
        }
    }

    /// Gives back all that a pop brought, untouched: not counted as a try, claimable at once.
    pub async fn release(&self, popped: &Popped) -> Result<(), Error> {
        self.settle(&releases(popped)).await.map(drop)
    }

    /// Registers a waiting consumer. `None`: the queue is gone.
    pub(super) async fn intend(
        &self,
        pop: &Arc<Pop>,
        queue: &Arc<QueueName>,
        number: i32,
        partition: Option<&PartitionName>,
    ) -> Result<Option<Intention<Want, Got>>, Error> {
        let Some(want) = self.want(pop, queue, number, partition, true).await? else { return Ok(None) };
        Ok(Some(self.bugle.messages(self.source()).once(Number(number), want, pop.most)?))
    }

    /// The numbers behind the names. `None`: the queue is gone, or there is no such partition and it is not to be made.
    async fn want(
        &self,
        pop: &Arc<Pop>,
        queue: &Arc<QueueName>,
        number: i32,
        partition: Option<&PartitionName>,
        make: bool,
    ) -> Result<Option<Want>, Error> {
        let mut part = None;
        if let Some(name) = partition {
            part = self.partition(number, name, make).await?;
            if part.is_none() {
                self.forget(queue);
                return Ok(None);
            }
        }
        let Some(group) = self.group(number, &pop.group, pop.start).await? else {
            self.forget(queue);
            return Ok(None);
        };
        let wish = Wish { part, parts: if part.is_some() { 1 } else { pop.partitions } };
        Ok(Some(Want { group, wish, who: Arc::new(Who { pop: pop.clone(), queue: queue.clone() }) }))
    }

    pub(super) fn forget_names(&self, queue: &QueueName, number: i32, pop: &Pop) {
        self.forget_group(number, &pop.group);
        self.forget(queue);
    }
}
