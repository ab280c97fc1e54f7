//! What becomes of claimed messages: acked, tried again, dead, given back.

use super::fuse::{Fused, Settles, lane_of};
use super::{Broker, PartitionId, Statements};
use crate::jobs::enqueue::interval;
use crate::limits::{ERROR_MESSAGE_BYTES_MAX, LEASE_SECONDS_MAX, SETTLE_MESSAGES_MAX};
use crate::name::{GroupName, Key};
use crate::{Error, crash};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How often a verdict is given anew that met another one for the same claim.
const TRIES: usize = 200;

/// What a consumer says about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It and all before it in its claim are done.
    Ack,
    /// It failed: it and all behind it come again, or it is dead when the queue's retries are used up.
    Fail,
    /// It and all behind it come again, counted as a try.
    Retry,
    /// It is dead: it goes to the dead letters, and the cursor passes it.
    Dead,
    /// The whole claim is given back, not counted as a try.
    Release,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Fail => "fail",
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Release => "release",
        }
    }
}

/// A verdict about one message.
#[derive(Debug, Clone)]
pub struct Settle {
    partition: PartitionId,
    group: GroupName,
    token: Option<Uuid>,
    seq: Option<i64>,
    key: Option<String>,
    verdict: Verdict,
    error: Option<String>,
}

impl Settle {
    /// Names the message by its place in the log.
    #[must_use]
    pub fn by_seq(
        partition: PartitionId,
        group: GroupName,
        token: Option<Uuid>,
        seq: i64,
        verdict: Verdict,
    ) -> Self {
        Self { partition, group, token, seq: Some(seq), key: None, verdict, error: None }
    }

    /// Names the message by its key; one without a key has its id as its key. Without a token it is the claim that the group has just now. A key
    /// that no message can have is refused.
    pub fn by_key(
        partition: PartitionId,
        group: GroupName,
        token: Option<Uuid>,
        key: &str,
        verdict: Verdict,
    ) -> Result<Self, Error> {
        let key = Some(Key::parse(key)?.as_str().to_owned());
        Ok(Self { partition, group, token, seq: None, key, verdict, error: None })
    }

    /// Which message it is about, in words.
    pub(super) fn names(&self) -> String {
        let message = match (&self.key, self.seq) {
            (Some(key), _) => format!("the message with key {key:?}"),
            (None, seq) => format!("message {}", seq.unwrap_or_default()),
        };
        let lease = self.token.map(|token| format!(" under lease {token}")).unwrap_or_default();
        format!("{message} for group {:?}{lease}", self.group.as_str())
    }

    /// Why it failed, for whoever looks at the dead letters; a long text is cut.
    #[must_use]
    pub fn error(mut self, error: &str) -> Self {
        let mut end = error.len().min(ERROR_MESSAGE_BYTES_MAX);
        while !error.is_char_boundary(end) {
            end -= 1;
        }
        self.error = Some(error[..end].replace('\0', ""));
        self
    }
}

/// What became of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// It is done; also when it was before.
    Acked,
    /// It is among the dead letters.
    Dead,
    /// It comes again, counted as a try.
    Retried,
    /// Its claim was given back.
    Released,
    /// It comes again, because one before it does.
    Returned,
    /// The cursor had passed it already, and does not go back.
    Passed,
    /// The lease is somebody else's by now, or nobody's.
    Lost,
    /// There is no such message in the claim.
    Missing,
}

/// The answer to a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// What became of it.
    pub settlement: Settlement,
    /// The partition is claimable again: the lease is over.
    pub freed: bool,
    /// The queue's name, if there is such a partition.
    pub queue: Option<String>,
    /// The partition's name.
    pub partition: Option<String>,
}

/// What became of the extension of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// It ends then.
    Until(DateTime<Utc>),
    /// Nobody has it any more.
    Lost,
    /// Its time was over; nobody else has claimed since.
    Ended,
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    outcome: String,
    freed: Option<bool>,
    queue_no: Option<i32>,
    queue: Option<String>,
    partition: Option<String>,
}

/// What a row says.
pub(super) enum Said {
    Settled(Settled),
    /// Two verdicts met, and this one must be given anew.
    Again,
    /// Somebody can take something of this queue now.
    Wake(i32),
}

impl Row {
    pub(super) fn said(self) -> Result<Said, Error> {
        let settlement = match self.outcome.as_str() {
            "acked" => Settlement::Acked,
            "dead" => Settlement::Dead,
            "retried" => Settlement::Retried,
            "released" => Settlement::Released,
            "returned" => Settlement::Returned,
            "passed" => Settlement::Passed,
            "lost" => Settlement::Lost,
            "missing" => Settlement::Missing,
            "again" => return Ok(Said::Again),
            "wake" => return Ok(Said::Wake(self.queue_no.unwrap_or_default())),
            other => return Err(Error::Bug(format!("a verdict was answered with {other:?}"))),
        };
        let Self { freed, queue, partition, .. } = self;
        Ok(Said::Settled(Settled { settlement, freed: freed.unwrap_or_default(), queue, partition }))
    }
}

/// Verdicts as the columns that SQL takes.
#[derive(Default)]
pub(super) struct Columns<'s> {
    pub(super) partitions: Vec<i32>,
    pub(super) groups: Vec<&'s str>,
    pub(super) tokens: Vec<Option<Uuid>>,
    pub(super) seqs: Vec<Option<i64>>,
    pub(super) keys: Vec<Option<&'s str>>,
    pub(super) verdicts: Vec<&'s str>,
    pub(super) errors: Vec<Option<&'s str>>,
}

impl<'s> Columns<'s> {
    pub(super) fn new(verdicts: impl IntoIterator<Item = &'s Settle>) -> Self {
        let mut columns = Self::default();
        for settle in verdicts {
            columns.partitions.push(settle.partition.0);
            columns.groups.push(settle.group.as_str());
            columns.tokens.push(settle.token);
            columns.seqs.push(settle.seq);
            columns.keys.push(settle.key.as_deref());
            columns.verdicts.push(settle.verdict.as_str());
            columns.errors.push(settle.error.as_deref());
        }
        columns
    }
}

impl Broker {
    /// Settles messages of any partitions and groups, all with one statement, which other callers of this moment share; answered in their
    /// order. Of one claim they are applied in the order of the log, whoever gave them: what comes behind the first that comes again comes
    /// again as well.
    ///
    /// Whoever drops the future does not learn what became of it.
    pub async fn settle(&self, verdicts: &[Settle]) -> Result<Vec<Settled>, Error> {
        if verdicts.len() > SETTLE_MESSAGES_MAX {
            return Err(Error::Invalid {
                what: "number of verdicts",
                fault: format!("is {}, over the limit of {SETTLE_MESSAGES_MAX}", verdicts.len()),
                next: "settle them in several calls",
            });
        }
        if verdicts.is_empty() {
            return Ok(Vec::new());
        }
        let lane = lane_of(verdicts.first().map(|first| first.partition));
        let batch = Fused(Settles(self.bugle.clone()));
        let settled = self.shared().settles.call(&batch, lane, verdicts.to_vec()).await;
        settled.unwrap_or_else(|| Err(Error::timed_out()))
    }

    /// Extends a lease with all its partitions to `by` from now, unless it ends later anyway.
    pub async fn extend(&self, token: Uuid, by: Duration) -> Result<Extended, Error> {
        let by = interval("lease", by.min(Duration::from_secs(LEASE_SECONDS_MAX)))?;
        for _ in 0..TRIES {
            let (outcome, until): (String, Option<DateTime<Utc>>) =
                sqlx::query_as(self.statements().extend_leases())
                    .bind(self.bugle.namespace_number())
                    .bind(vec![token])
                    .bind(vec![by])
                    .fetch_one(self.bugle.pool())
                    .await
                    .map_err(Error::executing)?;
            match (outcome.as_str(), until) {
                ("held", Some(until)) => return Ok(Extended::Until(until)),
                ("again", _) => {}
                ("ended", _) => return Ok(Extended::Ended),
                _ => return Ok(Extended::Lost),
            }
        }
        Ok(Extended::Lost)
    }
}

/// Settles; verdicts that met others for the same claim are given anew, and see then whether they still hold. Beside the answers: the queues of
/// which somebody can take something now.
pub(super) async fn settle(
    connection: &mut PgConnection,
    statements: &Statements,
    namespace: i32,
    verdicts: &[&Settle],
) -> Result<(Vec<Settled>, BTreeSet<i32>), Error> {
    let mut settled: Vec<Option<Settled>> = verdicts.iter().map(|_| None).collect();
    let mut queues = BTreeSet::new();
    for round in 0..TRIES {
        let open: Vec<usize> = (0..verdicts.len()).filter(|place| settled[*place].is_none()).collect();
        if open.is_empty() {
            break;
        }
        crash::point("settle.before_send");
        let columns = Columns::new(open.iter().map(|place| verdicts[*place]));
        let rows = sqlx::query_as(statements.settle_messages())
            .bind(namespace)
            .bind(columns.partitions)
            .bind(columns.groups)
            .bind(columns.tokens)
            .bind(columns.seqs)
            .bind(columns.keys)
            .bind(columns.verdicts)
            .bind(columns.errors)
            .fetch_all(&mut *connection)
            .await
            .map_err(Error::executing);
        crash::point("settle.after_commit");
        let rows: Vec<Row> = match rows {
            Err(error) if round > 0 && error.is_passing() => continue, // what is settled stays so: the others are asked anew
            rows => rows?,
        };
        let mut open = open.into_iter();
        for row in rows {
            let said = row.said()?;
            if let Said::Wake(queue) = said {
                queues.insert(queue);
            } else if let (Some(place), Said::Settled(answer)) = (open.next(), said) {
                settled[place] = Some(answer);
            }
        }
    }
    let busy = || Error::Bug("verdicts for one claim met again and again".to_owned());
    let settled = settled.into_iter().map(|settled| settled.ok_or_else(busy)).collect::<Result<_, _>>()?;
    Ok((settled, queues))
}
