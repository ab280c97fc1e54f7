//! Pushes and acks together: all or nothing.

use super::ack::{Ack, fault};
use super::push::PushItem;
use super::{Refusals, scoped};
use crate::access::{Scope, Transact};
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use axum::Json;
use bugle::broker::{Fault, Operation as Broken, Settlement, Transacted, Transaction, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(transaction))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TransactionRequest {
    /// At most 10,000, each pushed message counted.
    operations: Option<Vec<Operation>>,
    /// Leases that must still be held.
    required_leases: Option<Vec<String>>,
}

/// A push or an ack. (One struct for both: serde reads an enum with a tag by way of a copy, which payloads that pass through unread do not survive.)
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Operation {
    /// `push` or `ack`.
    r#type: String,
    /// Of a push: the messages.
    items: Option<Vec<PushItem>>,
    /// Of an ack, as the following.
    transaction_id: Option<String>,
    partition_id: Option<String>,
    lease_id: Option<String>,
    /// `completed` (the default) or `success`, `retry`, `dlq`; `failed` makes it a dead letter at once.
    status: Option<String>,
    consumer_group: Option<String>,
    error: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TransactionAnswer {
    transaction_id: Uuid,
    success: bool,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// One for each message that was pushed and each that was settled.
    results: Vec<OperationAnswer>,
}

#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
enum OperationAnswer {
    #[serde(rename_all = "camelCase")]
    Push {
        index: usize,
        success: bool,
        queue_name: String,
        partition_id: Uuid,
        message_id: Uuid,
        transaction_id: String,
    },
    #[serde(rename_all = "camelCase")]
    Ack { index: usize, success: bool, transaction_id: String, error: Option<&'static str>, dlq: bool },
}

/// What an operation will be answered with, and where it stands in the request.
enum Asked {
    Push { at: String, queue: String, key: Option<String> },
    Ack { at: String, key: String, verdict: Verdict },
}

/// Why nothing was done: the operation, what is wrong, the value and the next step.
fn why(asked: &[Asked], broken: Broken, fault: Fault) -> Option<String> {
    let mut pushes = asked.iter().filter(|asked| matches!(asked, Asked::Push { .. }));
    let mut acks = asked.iter().filter(|asked| matches!(asked, Asked::Ack { .. }));
    let asked = match broken {
        Broken::Push(place) => pushes.nth(place)?,
        Broken::Settle(place) => acks.nth(place)?,
        Broken::Require(lease) => {
            return Some(format!("requiredLeases: lease {lease} is not held any more; pop again"));
        }
    };
    Some(match (asked, fault) {
        (Asked::Push { at, queue, .. }, Fault::Full) => {
            format!("{at} (push): queue {queue:?} is full; send it when consumers have done some")
        }
        (Asked::Push { at, queue, .. }, Fault::Gone) => {
            format!("{at} (push): queue {queue:?} was deleted meanwhile; send the transaction again")
        }
        (Asked::Push { at, queue, key }, _) => {
            let key = key.as_deref().unwrap_or_default();
            format!(
                "{at} (push): transactionId {key:?} is in queue {queue:?} already; leave it out, or send another"
            )
        }
        (Asked::Ack { at, key, .. }, Fault::Missing) => {
            format!(
                "{at} (ack): Message not found: transactionId {key:?} is not in the lease; ack what was popped with it"
            )
        }
        (Asked::Ack { at, key, .. }, Fault::Passed) => {
            format!("{at} (ack): transactionId {key:?} was completed before; leave it out")
        }
        (Asked::Ack { at, key, .. }, _) => {
            format!("{at} (ack): Invalid or expired lease of transactionId {key:?}; pop again")
        }
    })
}

/// Push and settle, all or nothing.
///
/// A duplicate, a full queue, a lease that is lost, or a message that is not of its lease: nothing is done, `success` is false, and `error` names the
/// operation.
#[utoipa::path(post, path = "/api/v1/transaction", tag = "messages", request_body = TransactionRequest, responses(
    (status = 200, description = "Whether it was done", body = TransactionAnswer),
    (status = 409, description = "A queue holds jobs", body = crate::error::Failed),
    Refusals,
))]
async fn transaction(
    scope: Scope<Transact>,
    Body(request): Body<TransactionRequest>,
) -> Result<Json<TransactionAnswer>, Error> {
    let operations = request.operations.ok_or_else(|| Error::bad("operations array required"))?;
    if operations.is_empty() {
        return Err(Error::bad("operations array cannot be empty"));
    }
    let transaction_id = Uuid::now_v7();
    let refused = |why: String| {
        Ok(Json(TransactionAnswer { transaction_id, success: false, error: Some(why), results: Vec::new() }))
    };
    let mut all = Transaction::default();
    for (index, lease) in request.required_leases.into_iter().flatten().enumerate() {
        let Ok(lease) = Uuid::parse_str(&lease) else {
            let sentence = "is no lease; send the leaseId of a pop";
            return refused(format!("requiredLeases[{index}]: {lease:?} {sentence}"));
        };
        all.required.push(lease);
    }
    let mut asked = Vec::new();
    for (index, operation) in operations.into_iter().enumerate() {
        let place = format!("operations[{index}]");
        add(&scope, &place, operation, &mut all, &mut asked).await.map_err(|error| error.at(&place))?;
        if asked.len() > TRANSACTION_OPERATIONS_MAX {
            let sentence = format!("operations are more than {TRANSACTION_OPERATIONS_MAX}, messages counted");
            return Err(Error::bad(format!("{sentence}; use several transactions")));
        }
    }
    if !all.push.is_empty() {
        scope.app().refused().check_push()?;
    }
    let (pushed, settled) = match scope.seen().transact(&all).await? {
        Transacted::Done { pushed, settled } => (pushed, settled),
        Transacted::Refused { operation, fault, why: words } => {
            return refused(why(&asked, operation, fault).unwrap_or(words));
        }
    };
    let (mut pushed, mut settled) = (pushed.into_iter(), settled.into_iter());
    let results = asked.into_iter().enumerate().filter_map(|(index, asked)| {
        Some(match asked {
            Asked::Push { queue, key, .. } => {
                let pushed = pushed.next()?;
                OperationAnswer::Push {
                    index,
                    success: true,
                    queue_name: queue,
                    partition_id: pushed.partition.uuid(),
                    message_id: pushed.id,
                    transaction_id: key.unwrap_or_else(|| pushed.id.to_string()),
                }
            }
            Asked::Ack { key, verdict, .. } => {
                let settlement = settled.next()?.settlement;
                let (error, dlq) = (fault(verdict, settlement), settlement == Settlement::Dead);
                OperationAnswer::Ack { index, success: error.is_none(), transaction_id: key, error, dlq }
            }
        })
    });
    Ok(Json(TransactionAnswer { transaction_id, success: true, error: None, results: results.collect() }))
}

/// Checks an operation and puts it where it belongs.
async fn add(
    scope: &Scope<Transact>,
    place: &str,
    operation: Operation,
    all: &mut Transaction,
    asked: &mut Vec<Asked>,
) -> Result<(), Error> {
    let Operation { r#type, items, transaction_id, partition_id, lease_id, status, consumer_group, error } =
        operation;
    match r#type.as_str() {
        "push" => {
            let items = items.ok_or_else(|| Error::bad("items array is required"))?;
            for (index, item) in items.into_iter().enumerate() {
                let at = |error: Error| error.at(&format!("items[{index}]"));
                scope.on(&item.queue).map_err(at)?;
                let (at_item, key) = (format!("{place}.items[{index}]"), item.key().map(str::to_owned));
                asked.push(Asked::Push { at: at_item, queue: item.queue.clone(), key });
                all.push.push(item.message(scope.subject()).map_err(at)?);
            }
            Ok(())
        }
        "ack" => {
            let ack = Ack { transaction_id, partition_id, lease_id, status, consumer_group, error };
            let checked = ack.check(None, verdict)?;
            scope.on_partition(checked.partition).await?;
            asked.push(Asked::Ack {
                at: place.to_owned(),
                key: ack.key().to_owned(),
                verdict: checked.verdict,
            });
            all.settle.push(checked.settle);
            Ok(())
        }
        other => Err(Error::bad(format!("type is {other:?}; send push or ack"))),
    }
}

/// What a status means in a transaction: whoever says there that a message has failed wants that kept, not done again.
fn verdict(status: &str) -> Option<Verdict> {
    Some(match status {
        "completed" | "success" => Verdict::Ack,
        "failed" | "dlq" => Verdict::Dead,
        "retry" => Verdict::Retry,
        _ => return None,
    })
}
