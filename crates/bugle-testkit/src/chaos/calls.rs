//! Bugle's calls, each recorded before it is sent and after it was answered.

use crate::history::{Call, Event, Item, Moment, Op, RecorderClient};
use bugle::jobs::{Claimed, Ended, Failure, Look, Queue, Receipt};
use bugle::{Bugle, Error, JobId, Outcome};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::Connection as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A client whose every call goes into the history.
#[derive(Clone)]
pub struct Recorded {
    /// The handle that the calls are made with.
    pub bugle: Bugle,
    /// The queue that they concern.
    pub queue: Queue,
    recorder: RecorderClient,
    who: String,
    unseen: Arc<Mutex<Unseen>>,
}

/// Claims of the engine that nobody saw, as far as they are told.
struct Unseen {
    told: u64,
    /// When the latest wait began: what is noticed after the next one may have been claimed as early.
    since: Moment,
}

/// Where a job is enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// A call of its own.
    Call,
    /// A transaction of the caller.
    Transaction,
}

/// When a job is to be due, by the database's clock.
#[derive(Debug, Clone, Copy)]
pub enum Due {
    /// At this moment.
    At(DateTime<Utc>),
    /// So long after the database has got the call, which it has not yet at the moment given.
    After(Duration, DateTime<Utc>),
}

impl Due {
    /// The moment before which no job may be handed out.
    fn earliest(self) -> DateTime<Utc> {
        match self {
            Self::At(due) => due,
            Self::After(delay, from) => from + delay,
        }
    }
}

impl Recorded {
    /// Calls by `who` on the queue `queue`.
    pub async fn new(bugle: Bugle, queue: &str, recorder: RecorderClient, who: &str) -> anyhow::Result<Self> {
        let queue = bugle.queue(queue).await?;
        let unseen = Unseen { told: 0, since: Moment::now() };
        Ok(Self { bugle, queue, recorder, who: who.to_owned(), unseen: Arc::new(Mutex::new(unseen)) })
    }

    fn invoke(&self, op: Op, items: Vec<Item>) -> std::io::Result<Call> {
        self.recorder.invoke(Event::new(&self.who, op).queue(self.queue.name().as_str()).items(items))
    }

    /// Enqueues one job per mark, all due at once.
    pub async fn enqueue(
        &self,
        marks: &[u64],
        due: Option<Due>,
        max_attempts: u16,
        within: Within,
    ) -> anyhow::Result<Vec<JobId>> {
        let items = marks
            .iter()
            .map(|mark| Item {
                mark: Some(*mark),
                due: due.map(Due::earliest),
                max_attempts: Some(max_attempts.into()),
                ..Item::default()
            })
            .collect();
        let call = self.invoke(Op::Enqueue, items)?;
        let payloads = marks.iter().map(|mark| payload(*mark)).collect::<Result<_, _>>()?;
        let mut jobs =
            self.bugle.enqueue_many_raw(self.queue.name().as_str(), "k", payloads).max_attempts(max_attempts);
        jobs = match due {
            None => jobs,
            Some(Due::At(due)) => jobs.due_at(due),
            Some(Due::After(delay, _)) => jobs.delay(delay),
        };
        let answer = match within {
            Within::Call => jobs.send().await,
            Within::Transaction => self.in_transaction(jobs).await?,
        };
        match answer {
            Ok(ids) => {
                call.ok(|event| event.items(ids.iter().map(|id| Item::job(id.0))))?;
                Ok(ids)
            }
            Err(error) => not_done(&call, &error).map(|()| Vec::new()),
        }
    }

    /// Enqueues one plain job, which may be written together with those of other callers; `None` = the call was not
    /// answered with yes.
    pub async fn enqueue_plain(&self, mark: u64, max_attempts: u16) -> anyhow::Result<Option<JobId>> {
        let item = Item { mark: Some(mark), max_attempts: Some(max_attempts.into()), ..Item::default() };
        let call = self.invoke(Op::Enqueue, vec![item])?;
        let job = self.bugle.enqueue_raw(self.queue.name().as_str(), "k", payload(mark)?);
        let answer = job.max_attempts(max_attempts).send().await;
        one_answered(&call, answer)
    }

    /// What time it is for the database. `None` = it does not answer.
    pub async fn db_now(&self) -> Option<DateTime<Utc>> {
        sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(self.bugle.pool()).await.ok()
    }

    /// The caller's own transaction: only its commit can be unknown.
    async fn in_transaction(
        &self,
        jobs: bugle::jobs::enqueue::EnqueueMany<'_>,
    ) -> anyhow::Result<Result<Vec<JobId>, Error>> {
        let begun = async {
            let mut connection = self.bugle.pool().acquire().await?;
            let mut tx = connection.begin().await?;
            // Whatever the error was: without a commit nothing happened.
            let Ok(ids) = jobs.on(&mut *tx).await else { return Err(sqlx::Error::WorkerCrashed) };
            // Callers do other things in their transactions: meanwhile later ones commit, and cursors pass.
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..20))).await;
            Ok(tx.commit().await.map(|()| ids))
        };
        Ok(match begun.await {
            Ok(Ok(ids)) => Ok(ids),
            Ok(Err(error)) => Err(Error::Unknown(error)),
            Err(error) => Err(Error::NoConnection(error)),
        })
    }

    /// Enqueues one job with a key; `None` = the call was not answered with yes.
    pub async fn enqueue_with_key(
        &self,
        mark: u64,
        key: &str,
        max_attempts: u16,
    ) -> anyhow::Result<Option<JobId>> {
        let item = Item {
            mark: Some(mark),
            key: Some(key.into()),
            max_attempts: Some(max_attempts.into()),
            ..Item::default()
        };
        let call = self.invoke(Op::Enqueue, vec![item])?;
        let job = self
            .bugle
            .enqueue_raw(self.queue.name().as_str(), "k", payload(mark)?)
            .key(key)
            .max_attempts(max_attempts);
        one_answered(&call, job.send().await)
    }

    /// Claims, looking again every `poll` until something is there or `patience` is over. One look that fails ends it.
    pub async fn claim(
        &self,
        most: u32,
        lease: Duration,
        poll: Duration,
        patience: Duration,
    ) -> anyhow::Result<Option<Look>> {
        let call = self.invoke(Op::Claim, Vec::new())?;
        let begun = tokio::time::Instant::now();
        loop {
            match self.queue.claim(&self.who, most, lease).await {
                Ok(look) if look.jobs.is_empty() && begun.elapsed() < patience => {
                    tokio::time::sleep(look.look_again_in.unwrap_or(Duration::MAX).min(poll)).await;
                }
                Ok(look) => {
                    call.ok(|event| event.db_now(look.claimed_at).items(look.jobs.iter().map(handed_out)))?;
                    return Ok(Some(look));
                }
                Err(error) => return not_done(&call, &error).map(|()| None),
            }
        }
    }

    /// Claims, waiting in the wake engine until something is there or `patience` is over. A look that fails is the engine's to repeat.
    pub async fn claim_within(
        &self,
        most: u32,
        lease: Duration,
        patience: Duration,
    ) -> anyhow::Result<Option<Look>> {
        let began = Moment::now();
        let call = self.invoke(Op::Claim, Vec::new())?;
        let answer = self.queue.claim_within(&self.who, most, lease, patience).await;
        self.tell_unseen_claims(began)?;
        match answer {
            Ok(Some(look)) => {
                call.ok(|event| event.db_now(look.claimed_at).items(look.jobs.iter().map(handed_out)))?;
                Ok(Some(look))
            }
            Ok(None) => call.ok(|event| event).map(|()| None).map_err(Into::into),
            Err(error) => not_done(&call, &error).map(|()| None),
        }
    }

    /// The engine's looks that failed may have claimed, and what it handed back it had claimed: the history must know of them, and
    /// that it was perhaps for the wait before the one that began at `began`.
    fn tell_unseen_claims(&self, began: Moment) -> anyhow::Result<()> {
        let Some(node) = self.bugle.node() else { return Ok(()) };
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        let happened = node.counters().failed_looks.get() + node.counters().hand_backs.get();
        for _ in unseen.told..happened {
            let claim = Event::new(&self.who, Op::Claim).queue(self.queue.name().as_str());
            let call = self.recorder.invoke_at(unseen.since.min(began), claim)?;
            call.unknown("a look of the engine that nobody saw answered")?;
        }
        *unseen = Unseen { told: happened, since: began };
        Ok(())
    }

    /// Acks; `None` = not answered with yes.
    pub async fn ack(&self, receipts: &[Receipt], closed: &[i64]) -> anyhow::Result<Option<usize>> {
        let call = self.invoke(Op::Ack, items(receipts))?;
        let answer = self.queue.ack(receipts, closed).await;
        answered(&call, receipts, answer)
    }

    /// Releases.
    pub async fn release(&self, receipts: &[Receipt], closed: &[i64]) -> anyhow::Result<Option<usize>> {
        let call = self.invoke(Op::Release, items(receipts))?;
        let answer = self.queue.release(receipts, closed).await;
        answered(&call, receipts, answer)
    }

    /// Fails, to be tried again in a moment.
    pub async fn fail(&self, receipts: &[Receipt], closed: &[i64]) -> anyhow::Result<Option<usize>> {
        let call = self.invoke(Op::Fail, items(receipts))?;
        let retry_in = Some(Duration::from_millis(20));
        let failures: Vec<_> = receipts
            .iter()
            .map(|r| Failure { receipt: *r, code: "boom".into(), message: "boom".into(), retry_in })
            .collect();
        let answer = self.queue.fail(&failures, closed).await;
        answered(&call, receipts, answer.map(|ended| ended.iter().map(|Ended { id, .. }| *id).collect()))
    }

    /// Renews one lease.
    pub async fn renew(&self, token: i64) -> anyhow::Result<()> {
        let item = |token| Item { token: Some(token), ..Item::default() };
        let call = self.invoke(Op::Renew, vec![item(token)])?;
        match self.queue.renew(&self.who, &[token]).await {
            Ok(held) if held.is_empty() => call.refused(|event| event.items([item(token)]))?,
            Ok(held) => call.ok(|event| {
                event.items(
                    held.iter().map(|(token, until)| Item { lease_until: Some(*until), ..item(*token) }),
                )
            })?,
            Err(error) => not_done(&call, &error)?,
        }
        Ok(())
    }

    /// Cancels.
    pub async fn cancel(&self, id: JobId) -> anyhow::Result<()> {
        let call = self.invoke(Op::Cancel, vec![Item::job(id.0)])?;
        match self.bugle.cancel_job(id).await {
            Ok(Some(_)) => call.ok(|event| event.items([Item::job(id.0)]))?,
            Ok(None) => call.refused(|event| event.items([Item::job(id.0)]).cause("no such open job"))?,
            Err(error) => not_done(&call, &error)?,
        }
        Ok(())
    }
}

/// Records how an enqueue of one job was answered.
fn one_answered(call: &Call, answer: Result<JobId, Error>) -> anyhow::Result<Option<JobId>> {
    match answer {
        Ok(id) => {
            call.ok(|event| event.items([Item::job(id.0)]))?;
            Ok(Some(id))
        }
        Err(error) => not_done(call, &error).map(|()| None),
    }
}

fn payload(mark: u64) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(mark.to_string())
}

fn handed_out(job: &Claimed) -> Item {
    Item {
        mark: job.payload.get().parse().ok(),
        key: job.key.as_deref().map(Into::into),
        x: Some(job.receipt.row()),
        attempt: Some(job.attempt.into()),
        max_attempts: Some(job.max_attempts.into()),
        due: Some(job.due_at),
        lease_until: Some(job.lease_until),
        ..Item::job(job.id.0).token(job.receipt.token())
    }
}

fn items(receipts: &[Receipt]) -> Vec<Item> {
    receipts.iter().map(|r| Item::job(r.id().0).token(r.token())).collect()
}

/// Records which of the jobs were settled and which were refused.
fn answered(
    call: &Call,
    receipts: &[Receipt],
    answer: Result<Vec<JobId>, Error>,
) -> anyhow::Result<Option<usize>> {
    match answer {
        Ok(ended) => {
            let (ok, lost): (Vec<Receipt>, Vec<Receipt>) =
                receipts.iter().partition(|r| ended.contains(&r.id()));
            if !ok.is_empty() || receipts.is_empty() {
                call.ok(|event| event.items(items(&ok)))?;
            }
            if !lost.is_empty() {
                call.refused(|event| event.items(items(&lost)).cause("lost or cancelled"))?;
            }
            Ok(Some(ok.len()))
        }
        Err(error) => not_done(call, &error).map(|()| None),
    }
}

fn not_done(call: &Call, error: &Error) -> anyhow::Result<()> {
    match error.outcome() {
        Outcome::Refused => call.refused(|event| event.cause(&error.to_string()))?,
        Outcome::Unknown => call.unknown(&error.to_string())?,
    }
    Ok(())
}
