//! Messages as the wake engine sees them: how to look for them, and how to give them back.

use super::look::{self, Looked, Party, Sights};
use super::looks::{Claim, Looks};
use super::pop::Want;
use super::settle::{self, Settle, Verdict};
use super::{Counts, Popped, Statements};
use crate::Error;
use crate::fuse::Fuse;
use crate::pg::connect;
use bugle_wake::{Answer, Ask, Number, Source};
use sqlx::{Connection as _, PgConnection, PgPool};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a look may take to be answered: twice what it may wait for somebody else's claim.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// Groups that a node remembers something of. Above that it begins anew.
const SIGHTS_MAX: usize = 10_000;
/// How soon to look again when somebody else numbers the tail, or when something failed behind what was claimed already.
const AGAIN_IN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));
/// Milliseconds to wait after each try to give messages back that failed. After the last one the lease's end does it.
const HAND_BACK_PAUSES: [u64; 6] = [100, 500, 2_000, 5_000, 10_000, 20_000];

/// What a waiting consumer gets.
#[derive(Debug)]
pub(crate) enum Got {
    Messages(Box<Popped>),
    /// The group has another number now, or none: ask for it again.
    GroupIsGone,
}

/// Cheap to clone: the pump has one, and those who do not wait look by themselves.
#[derive(Clone)]
pub(crate) struct MessageSource {
    inner: Arc<Inner>,
}

struct Inner {
    pool: PgPool,
    statements: Arc<Statements>,
    namespace: i32,
    session: tokio::sync::Mutex<Option<Session>>,
    finds: Arc<AtomicU64>,
    counts: Arc<Counts>,
    /// Those of consumers who do not wait.
    looks: Fuse<Looks>,
}

/// A connection of our own, with what was seen on it. Another one may lead to another server, or to one that has come back from a crash without
/// its last transactions: what was seen before says nothing there.
struct Session {
    connection: PgConnection,
    sights: Sights,
}

impl MessageSource {
    pub(super) fn new(
        pool: PgPool,
        statements: Arc<Statements>,
        namespace: i32,
        finds: Arc<AtomicU64>,
        counts: Arc<Counts>,
    ) -> Self {
        let (session, looks) = (tokio::sync::Mutex::default(), Fuse::default());
        Self { inner: Arc::new(Inner { pool, statements, namespace, session, finds, counts, looks }) }
    }

    /// One look, in time. A session on which it fails is not used again.
    async fn look_at(
        &self,
        parties: &[Party],
        asks: &[Ask<Want>],
    ) -> Result<(Looked, Vec<Option<Duration>>), Error> {
        let looked = tokio::time::timeout(LOOK_WITHIN, async {
            let mut place = self.inner.session.lock().await;
            let mut session = match place.take() {
                Some(session) => session,
                None => Session {
                    connection: connect::one(&self.inner.pool.connect_options()).await?,
                    sights: Sights::new(),
                },
            };
            if session.sights.len() > SIGHTS_MAX {
                session.sights.clear();
            }
            let statements = &self.inner.statements;
            let looked =
                look::look(&mut session.connection, statements, &mut session.sights, parties, asks).await?;
            if looked.is_half {
                return Ok((looked, vec![Some(AGAIN_IN.1); asks.len()]));
            }
            let tail = if looked.tail_waits { Some(session.number_tail(statements).await) } else { None };
            let mut again = vec![None; asks.len()];
            for party in parties {
                if let Some(sight) = session.sights.get(&party.group) {
                    party.again(sight, Instant::now(), &mut again);
                }
            }
            if tail.is_some() {
                for again in &mut again {
                    *again = [*again, tail].into_iter().flatten().min();
                }
            }
            *place = Some(session);
            Ok((looked, again))
        });
        looked.await.unwrap_or_else(|_| Err(Error::timed_out()))
    }

    /// Closes the connection that looks are made on; a later look would open another.
    pub(super) async fn close(&self) {
        if let Some(session) = self.inner.session.lock().await.take() {
            let _ = session.connection.close().await; // it is gone either way
        }
    }

    /// A look for a consumer who does not wait, with others who come at the same time. Whoever drops the future half-way loses nothing: the look
    /// goes on, and gives back what it has claimed for him.
    pub(super) async fn look_now(&self, number: i32, want: &Want, most: u32) -> Result<Answer<Got>, Error> {
        let ask = Ask { number: Number(number), most, want: want.clone() };
        let claim = self.inner.looks.call(&Looks(self.clone()), (), ask).await;
        claim.unwrap_or_else(|| Err(Error::timed_out())).map(Claim::take)
    }
}

impl Session {
    /// Gives numbers to what users' transactions have pushed; how soon to look again. It must not fail the look: that has claimed already.
    async fn number_tail(&mut self, statements: &Statements) -> Duration {
        let numbered = sqlx::query_scalar(statements.number_tail()).fetch_one(&mut self.connection).await;
        match numbered {
            Ok(-1_i64) => AGAIN_IN.0, // somebody else is at it
            Ok(_) => Duration::ZERO,
            Err(error) => {
                tracing::warn!(%error, "messages of users' transactions could not be numbered, trying again");
                AGAIN_IN.1
            }
        }
    }
}

/// Those who wait, by group, ascending: two looks that claim in one order wait in no circle.
fn parties(asks: &[Ask<Want>]) -> Vec<Party> {
    let mut groups: BTreeMap<i32, Party> = BTreeMap::new();
    for (place, ask) in asks.iter().enumerate() {
        let (queue, group) = (ask.number.0, ask.want.group);
        let none = || Party { queue, group, free: Vec::new(), bound: Vec::new() };
        let party = groups.entry(group).or_insert_with(none);
        match ask.want.wish.part {
            Some(part) => party.bound.push((part, place)),
            None => party.free.push(place),
        }
    }
    groups.into_values().collect()
}

impl Source for MessageSource {
    type Want = Want;
    type Item = Got;
    type Error = Error;

    async fn look(&self, asks: Vec<Ask<Want>>) -> Result<Vec<Answer<Got>>, Error> {
        let parties = parties(&asks);
        self.inner.counts.pops.requests.add(u64::try_from(asks.len()).unwrap_or(u64::MAX));
        let (looked, again) = self.look_at(&parties, &asks).await?;
        self.inner.counts.pops.statements.add(looked.statements);
        let mut answers: Vec<Answer<Got>> = asks.iter().map(|_| Answer::default()).collect();
        for found in looked.found {
            self.inner.finds.fetch_add(1, Ordering::Relaxed);
            let (answer, who) = (&mut answers[found.place], &asks[found.place].want.who);
            answer.taken = u32::try_from(found.messages.len()).unwrap_or(u32::MAX);
            answer.item = Some(Got::Messages(Box::new(Popped {
                queue: (*who.queue).clone(),
                group: who.pop.group.clone(),
                token: found.token,
                auto_ack: who.pop.auto_ack,
                messages: found.messages,
            })));
        }
        for ((answer, again), ask) in answers.iter_mut().zip(again).zip(&asks) {
            if looked.gone.contains(&ask.want.group) {
                answer.item = Some(Got::GroupIsGone);
            } else if answer.item.is_none() {
                answer.again = again;
            }
        }
        Ok(answers)
    }

    fn is_away(error: &Error) -> bool {
        error.is_away()
    }

    async fn hand_back(&self, _: Number, got: Got) {
        let Got::Messages(popped) = got else { return };
        let release = releases(&popped);
        for pause in HAND_BACK_PAUSES {
            match self.give_back(&release).await {
                Ok(()) => return, // a lease that was lost needs nothing
                Err(error) => {
                    tracing::warn!(%error, messages = popped.messages.len(), "messages could not be given back");
                }
            }
            if self.inner.pool.is_closed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        tracing::error!(
            messages = popped.messages.len(),
            "messages were not given back: they will come again when their lease ends"
        );
    }
}

impl MessageSource {
    async fn give_back(&self, release: &[Settle]) -> Result<(), Error> {
        let inner = &self.inner;
        let mut connection = inner.counts.connection(&inner.pool).await?;
        let release: Vec<&Settle> = release.iter().collect();
        settle::settle(&mut connection, &inner.statements, inner.namespace, &release).await.map(drop)
    }
}

/// What gives a whole claim back.
pub(super) fn releases(popped: &Popped) -> Vec<Settle> {
    let mut seen = Vec::new();
    let first_of_each = popped.receipts().filter(|receipt| {
        let is_new = !seen.contains(&receipt.partition);
        seen.push(receipt.partition);
        is_new
    });
    first_of_each.map(|receipt| receipt.settle(Verdict::Release)).collect()
}
