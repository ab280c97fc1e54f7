//! Settling messages: done, failed, dead, again.

use super::{Refusals, scoped};
use crate::access::{Pop, Scope};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use axum::Json;
use bugle::broker::{PartitionId, QUEUE_MODE, Settle, Settled, Settlement, Verdict};
use bugle::limits::SETTLE_MESSAGES_MAX;
use bugle::name::GroupName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

/// No row of the claim is that message.
pub(super) const MISSING: &str = "Message not found";
/// The lease is somebody else's, or nobody's.
pub(super) const LOST: &str = "Invalid or expired lease";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(ack)).routes(scoped!(ack_batch))
}

/// What became of a message. null is as good as nothing in all of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ack {
    pub(super) transaction_id: Option<String>,
    pub(super) partition_id: Option<String>,
    /// Not sent: the lease that the group has just now.
    pub(super) lease_id: Option<String>,
    /// `completed` (the default) or `success`, `failed`, `retry`, `dlq`.
    pub(super) status: Option<String>,
    pub(super) consumer_group: Option<String>,
    /// Why it failed: kept with the dead letter.
    pub(super) error: Option<String>,
}

/// A verdict that can be given.
pub(super) struct Checked {
    pub(super) settle: Settle,
    pub(super) partition: PartitionId,
    pub(super) verdict: Verdict,
}

impl Ack {
    /// The id of the message, as it was sent.
    pub(super) fn key(&self) -> &str {
        self.transaction_id.as_deref().unwrap_or_default()
    }

    /// Is something missing without which nobody knows what is meant?
    fn check_shape(&self) -> Result<(), Error> {
        match (&self.transaction_id, &self.partition_id) {
            (None, _) => Err(Error::bad("transactionId is required")),
            (_, None) => Err(Error::bad("partitionId is required to ensure message uniqueness")),
            _ => Ok(()),
        }
    }

    /// The verdict; or what is wrong with this one alone. `of` says what a status means.
    pub(super) fn check(
        &self,
        group: Option<&str>,
        of: fn(&str) -> Option<Verdict>,
    ) -> Result<Checked, Error> {
        self.check_shape()?;
        let status = self.status.as_deref().unwrap_or("completed");
        let verdict = of(status).ok_or_else(|| {
            Error::bad(format!("Unknown status {status:?}; send completed, failed, retry or dlq"))
        })?;
        let group = group.or(self.consumer_group.as_deref()).filter(|group| !group.is_empty());
        let group = GroupName::parse(group.unwrap_or(QUEUE_MODE))?;
        let partition = self.partition_id.as_deref().unwrap_or_default();
        let partition = Uuid::parse_str(partition)
            .map_err(|error| Error::bad(format!("partitionId {partition:?} is no UUID: {error}")))?;
        let partition = PartitionId::from_uuid(partition).ok_or_else(|| Error::missing(MISSING))?;
        let lease = self.lease_id.as_deref().filter(|lease| !lease.is_empty());
        let lease = lease.map(Uuid::parse_str).transpose().map_err(|_| Error::bad(LOST))?;
        let mut settle = Settle::by_key(partition, group, lease, self.key(), verdict)
            .map_err(|error| Error::from(error).at("transactionId"))?;
        if let Some(error) = &self.error {
            settle = settle.error(error);
        }
        Ok(Checked { settle, partition, verdict })
    }
}

/// What a status means.
fn verdict(status: &str) -> Option<Verdict> {
    Some(match status {
        "completed" | "success" => Verdict::Ack,
        "failed" => Verdict::Fail,
        "retry" => Verdict::Retry,
        "dlq" => Verdict::Dead,
        _ => return None,
    })
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AckAnswer {
    index: usize,
    transaction_id: String,
    success: bool,
    error: Option<String>,
    queue_name: Option<String>,
    partition_name: Option<String>,
    /// The partition is claimable again.
    lease_released: bool,
    /// It is among the dead letters.
    dlq: bool,
}

/// Why a verdict came to nothing; `None`: it did not.
pub(super) fn fault(verdict: Verdict, settlement: Settlement) -> Option<&'static str> {
    match settlement {
        Settlement::Lost => Some(LOST),
        Settlement::Missing => Some(MISSING),
        Settlement::Returned if matches!(verdict, Verdict::Ack | Verdict::Dead) => {
            Some("It comes again, because one before it in its lease does")
        }
        Settlement::Passed if verdict != Verdict::Ack => Some("It was completed before"),
        _ => None,
    }
}

impl AckAnswer {
    fn failed(index: usize, ack: &Ack, error: &Error) -> Self {
        Self {
            index,
            transaction_id: ack.key().to_owned(),
            success: false,
            error: Some(error.sentence().to_owned()),
            queue_name: None,
            partition_name: None,
            lease_released: false,
            dlq: false,
        }
    }

    fn of(index: usize, ack: &Ack, verdict: Verdict, settled: Settled) -> Self {
        let fault = fault(verdict, settled.settlement);
        Self {
            index,
            transaction_id: ack.key().to_owned(),
            success: fault.is_none(),
            error: fault.map(str::to_owned),
            queue_name: settled.queue,
            partition_name: settled.partition,
            lease_released: settled.freed,
            dlq: settled.settlement == Settlement::Dead,
        }
    }
}

/// Settle one message.
///
/// The answer is a list of one.
#[utoipa::path(post, path = "/api/v1/ack", tag = "messages", request_body = Ack, responses(
    (status = 200, description = "What became of it", body = Vec<AckAnswer>), Refusals,
))]
async fn ack(scope: Scope<Pop>, Body(request): Body<Ack>) -> Result<Json<Vec<AckAnswer>>, Error> {
    request.check_shape()?;
    settle(&scope, &[request], None).await
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AckBatch {
    /// At most 10,000.
    acknowledgments: Option<Vec<Ack>>,
    /// For all of them.
    consumer_group: Option<String>,
}

/// Settle messages.
///
/// One that cannot be settled fails alone. Of one lease they are applied in the order of the partition: what comes behind the first that comes again
/// comes again as well, and several that failed are one try.
#[utoipa::path(post, path = "/api/v1/ack/batch", tag = "messages", request_body = AckBatch, responses(
    (status = 200, description = "What became of each, in their order", body = Vec<AckAnswer>), Refusals,
))]
async fn ack_batch(scope: Scope<Pop>, Body(batch): Body<AckBatch>) -> Result<Json<Vec<AckAnswer>>, Error> {
    let acks = batch.acknowledgments.ok_or_else(|| Error::bad("acknowledgments array is required"))?;
    if acks.len() > SETTLE_MESSAGES_MAX {
        let sentence = format!("acknowledgments are {}, over the limit of {SETTLE_MESSAGES_MAX}", acks.len());
        return Err(Error::bad(format!("{sentence}; send them in several requests")));
    }
    for (index, ack) in acks.iter().enumerate() {
        ack.check_shape().map_err(|error| error.at(&format!("acknowledgments[{index}]")))?;
    }
    settle(&scope, &acks, batch.consumer_group.as_deref()).await
}

async fn settle(
    scope: &Scope<Pop>,
    acks: &[Ack],
    group: Option<&str>,
) -> Result<Json<Vec<AckAnswer>>, Error> {
    let mut checked: Vec<Result<Checked, Error>> = acks.iter().map(|ack| ack.check(group, verdict)).collect();
    for place in &mut checked {
        if let Ok(verdict) = place
            && let Err(error) = scope.on_partition(verdict.partition).await
        {
            *place = Err(error);
        }
    }
    let verdicts: Vec<Settle> = checked.iter().flatten().map(|checked| checked.settle.clone()).collect();
    let mut settled =
        if verdicts.is_empty() { Vec::new() } else { scope.seen().settle(&verdicts).await? }.into_iter();
    let answers = acks.iter().zip(&checked).enumerate();
    let answers = answers.map(|(index, (ack, checked))| match checked {
        Ok(checked) => match settled.next() {
            Some(settled) => AckAnswer::of(index, ack, checked.verdict, settled),
            None => AckAnswer::failed(index, ack, &Error::missing(MISSING)),
        },
        Err(error) => AckAnswer::failed(index, ack, error),
    });
    let answers: Vec<AckAnswer> = answers.collect();
    for answer in answers.iter().filter(|answer| answer.success) {
        scope.app().meter().settled.one();
        if answer.dlq {
            scope.app().meter().dead.one();
        }
    }
    Ok(Json(answers))
}
