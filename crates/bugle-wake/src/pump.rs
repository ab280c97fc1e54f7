//! The pump: serves all waiting intentions of one kind of work with one look at a time for each queue.

use crate::breaker::Breaker;
use crate::intention::Intention;
use crate::number::Number;
use crate::registry::{Registry, TooMany, Wish};
use crate::room::{Room, Share};
use crate::round::{Answer, Ask, Round};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// One kind of work: how to look for it, and how to give it back.
pub trait Source: Send + Sync + 'static {
    /// What an intention says about itself.
    type Want: Clone + Send + Sync + 'static;
    /// What it gets: everything that one look claimed for it.
    type Item: Send + 'static;
    /// Why a look failed.
    type Error: std::error::Error + Send + 'static;

    /// One look for all asks (rule 3): one autocommit statement. Asks of one queue stand together, in the order of registration; queues
    /// ascend. One answer for each ask, in the same order.
    fn look(
        &self,
        asks: Vec<Ask<Self::Want>>,
    ) -> impl Future<Output = Result<Vec<Answer<Self::Item>>, Self::Error>> + Send;

    /// May a look that failed like this mean that the database is away?
    fn is_away(error: &Self::Error) -> bool;

    /// Gives back what was claimed for an intention that has gone, untouched.
    fn hand_back(&self, number: Number, item: Self::Item) -> impl Future<Output = ()> + Send;
}

/// Passing time.
pub(crate) trait Timer: Send + Sync + 'static {
    fn sleep_until(&self, at: Option<Instant>) -> impl Future<Output = ()> + Send;
}

/// A pump's handle: registers intentions.
pub struct Pump<S: Source> {
    pub(crate) registry: Arc<Registry<S::Want, S::Item>>,
}

impl<S: Source> Clone for Pump<S> {
    fn clone(&self) -> Self {
        Self { registry: self.registry.clone() }
    }
}

impl<S: Source> Pump<S> {
    /// Registers a consumer that wants up to `most` of a queue and goes when it has got something.
    pub fn once(
        &self,
        number: Number,
        want: S::Want,
        most: u32,
    ) -> Result<Intention<S::Want, S::Item>, TooMany> {
        self.register(number, want, most, true, None)
    }

    /// Registers a consumer that stays: what it has not got yet it goes on wanting, and it may want more later.
    pub fn standing(
        &self,
        number: Number,
        want: S::Want,
        most: u32,
    ) -> Result<Intention<S::Want, S::Item>, TooMany> {
        self.register(number, want, most, false, None)
    }

    /// The same for one that shares a room with others: `least` of its slots are its own, the rest it takes as they are free.
    pub fn standing_in(
        &self,
        room: &Room,
        number: Number,
        want: S::Want,
        most: u32,
        least: u32,
    ) -> Result<Intention<S::Want, S::Item>, TooMany> {
        self.register(number, want, most, false, Some(Share::new(room.clone(), least)))
    }

    fn register(
        &self,
        number: Number,
        want: S::Want,
        most: u32,
        once: bool,
        share: Option<Share>,
    ) -> Result<Intention<S::Want, S::Item>, TooMany> {
        let id = self.registry.register(number, Wish { want, most, once, share }, Instant::now())?;
        Ok(Intention::new(self.registry.clone(), number, id))
    }
}

/// Something that the pump has under way.
enum Done<S: Source> {
    Look(Round, Result<Vec<Answer<S::Item>>, S::Error>),
    HandBack,
}

/// Looks and hands out until the registry is closed and nothing is under way.
pub(crate) async fn run<S: Source>(
    source: Arc<S>,
    registry: Arc<Registry<S::Want, S::Item>>,
    breaker: Breaker,
    timer: Arc<impl Timer>,
) {
    let mut under_way: FuturesUnordered<BoxFuture<'static, Done<S>>> = FuturesUnordered::new();
    let (mut looks, looks_max) = (0, registry.options.looks_max.max(1));
    registry.restart(Instant::now());
    loop {
        let now = Instant::now();
        registry.tick(now);
        let (unclaimed, closed) = {
            let mut inner = registry.inner.lock();
            (std::mem::take(&mut inner.unclaimed), inner.closed)
        };
        for (number, item) in unclaimed {
            registry.counters.hand_backs.one();
            let source = source.clone();
            under_way
                .push(async move { source.hand_back(number, item).await }.map(|()| Done::HandBack).boxed());
        }
        while looks < looks_max && !closed {
            let Some((round, asks)) = registry.arm(now) else { break };
            let (source, breaker) = (source.clone(), breaker.clone());
            looks += 1;
            under_way.push(async move { Done::Look(round, look(&*source, &breaker, asks).await) }.boxed());
        }
        if closed && under_way.is_empty() {
            return;
        }
        // A timer of a closed registry would be over again and again: no look answers it.
        let until = if closed { None } else { registry.next_timer(looks < looks_max) };
        let mut changed = pin!(registry.changed.raised().fuse());
        let mut time = pin!(timer.sleep_until(until).fuse());
        futures_util::select_biased! {
            done = under_way.select_next_some() => match done {
                Done::Look(round, answer) => {
                    looks -= 1;
                    settle::<S>(&registry, round, answer);
                }
                Done::HandBack => {}
            },
            // Those who were served together come back together: whoever is about to register gets in, too.
            () = changed => give_way().await,
            () = time => {}
        }
    }
}

/// Looks when the database is there. What is armed meanwhile waits with it: its queues are looked at, as far as anybody can tell.
async fn look<S: Source>(
    source: &S,
    breaker: &Breaker,
    asks: Vec<Ask<S::Want>>,
) -> Result<Vec<Answer<S::Item>>, S::Error> {
    breaker.closed().await;
    let looked = source.look(asks).await;
    if looked.as_ref().is_err_and(S::is_away) {
        breaker.trip();
    }
    looked
}

/// Lets those run that could run already.
async fn give_way() {
    let mut gave_way = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn settle<S: Source>(
    registry: &Registry<S::Want, S::Item>,
    round: Round,
    answer: Result<Vec<Answer<S::Item>>, S::Error>,
) {
    match answer {
        Ok(answers) => registry.hand_out(round, answers, Instant::now()),
        Err(error) => {
            tracing::warn!(%error, "look failed, trying again");
            registry.failed(&round, Instant::now());
        }
    }
}
