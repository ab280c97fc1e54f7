//! Telling a queue its options.

use super::{Refusals, scoped};
use crate::access::{Configure, Scope};
use crate::answer::queue_id;
use crate::app::App;
use crate::body::Body;
use crate::error::Error;
use axum::Json;
use bugle::broker::operate::QueueOptions;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use uuid::Uuid;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(scoped!(configure))
}

#[derive(Deserialize, ToSchema)]
struct ConfigureRequest {
    queue: Option<String>,
    /// The first of two tags; not sent: what stands before the first dot of the queue's name.
    namespace: Option<String>,
    /// The second tag; not sent: what stands behind that dot.
    task: Option<String>,
    options: Option<WireOptions>,
}

/// Options of a queue as Queen's wire names them. One that is not sent, or null, is not told: no message is ever deleted because of that. One that
/// is not known is refused.
#[derive(Clone, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct WireOptions {
    /// Seconds that a pop leases a partition; not told: 300.
    #[schema(minimum = 0, maximum = 86_400)]
    lease_time: Option<i32>,
    /// Retries before a message that fails is dead; not told: 3.
    #[schema(minimum = 0, maximum = 1_000_000)]
    retry_limit: Option<i32>,
    /// Milliseconds before a retry; not told: none.
    #[schema(minimum = 0)]
    retry_delay: Option<i32>,
    /// Whoever pops by tags gets the messages of queues with a higher one before.
    priority: Option<i32>,
    /// Most messages that the queue holds; 0: any number.
    #[schema(minimum = 0)]
    max_size: Option<i32>,
    /// Seconds after which a message is not delivered any more; 0: for ever.
    #[schema(minimum = 0)]
    ttl: Option<i32>,
    /// Seconds after its push that a message waits.
    #[schema(minimum = 0)]
    delayed_processing: Option<i32>,
    /// Seconds after its newest message that a partition waits.
    #[schema(minimum = 0)]
    window_buffer: Option<i32>,
    /// Does `retentionSeconds` count?
    retention_enabled: Option<bool>,
    /// Messages may go at this age, done or not; 0: never.
    #[schema(minimum = 0)]
    retention_seconds: Option<i32>,
    /// Messages that all groups have done may go at this age; 0: never.
    #[schema(minimum = 0)]
    completed_retention_seconds: Option<i32>,
    /// true is refused: payloads cannot be encrypted yet.
    encryption_enabled: Option<bool>,
    /// Dead letters are always kept.
    dead_letter_queue: Option<bool>,
    /// Dead letters are always kept.
    dlq_after_max_retries: Option<bool>,
    /// Seconds after which a message that waits is not delivered any more; 0: for ever.
    #[schema(minimum = 0)]
    max_wait_time_seconds: Option<i32>,
}

impl WireOptions {
    /// By the names that the caller knows, before the database refuses them by its own.
    fn check(&self) -> Result<(), Error> {
        for (name, value, max) in [
            ("leaseTime", self.lease_time, 86_400),
            ("retryLimit", self.retry_limit, 1_000_000),
            ("retryDelay", self.retry_delay, i32::MAX),
            ("maxSize", self.max_size, i32::MAX),
            ("ttl", self.ttl, i32::MAX),
            ("delayedProcessing", self.delayed_processing, i32::MAX),
            ("windowBuffer", self.window_buffer, i32::MAX),
            ("retentionSeconds", self.retention_seconds, i32::MAX),
            ("completedRetentionSeconds", self.completed_retention_seconds, i32::MAX),
            ("maxWaitTimeSeconds", self.max_wait_time_seconds, i32::MAX),
        ] {
            if let Some(value) = value.filter(|value| !(0..=max).contains(value)) {
                return Err(Error::bad(format!("options.{name} is {value}; use 0 to {max}")));
            }
        }
        Ok(())
    }

    fn told(self, tag_namespace: Option<String>, tag_task: Option<String>) -> QueueOptions {
        QueueOptions {
            tag_namespace,
            tag_task,
            lease_seconds: self.lease_time,
            retry_limit: self.retry_limit,
            retry_delay_ms: self.retry_delay,
            delay_seconds: self.delayed_processing,
            window_seconds: self.window_buffer,
            messages_max: self.max_size,
            ttl_seconds: self.ttl,
            priority: self.priority,
            retention_enabled: self.retention_enabled,
            retention_seconds: self.retention_seconds,
            completed_retention_seconds: self.completed_retention_seconds,
            wait_seconds_max: self.max_wait_time_seconds,
            encryption_enabled: self.encryption_enabled,
            dead_letter_queue: self.dead_letter_queue,
            dead_letter_after_retries: self.dlq_after_max_retries,
        }
    }

    /// What a queue does: what it was told, and what holds without.
    pub(super) fn in_force(options: &QueueOptions) -> Self {
        Self {
            lease_time: options.lease_seconds.or(Some(300)),
            retry_limit: options.retry_limit.or(Some(3)),
            retry_delay: options.retry_delay_ms.or(Some(0)),
            priority: options.priority.or(Some(0)),
            max_size: options.messages_max.or(Some(0)),
            ttl: options.ttl_seconds.or(Some(0)),
            delayed_processing: options.delay_seconds.or(Some(0)),
            window_buffer: options.window_seconds.or(Some(0)),
            retention_enabled: options.retention_enabled.or(Some(false)),
            retention_seconds: options.retention_seconds.or(Some(0)),
            completed_retention_seconds: options.completed_retention_seconds.or(Some(0)),
            encryption_enabled: options.encryption_enabled.or(Some(false)),
            dead_letter_queue: Some(true),
            dlq_after_max_retries: Some(true),
            max_wait_time_seconds: options.wait_seconds_max.or(Some(0)),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConfigureAnswer {
    configured: bool,
    queue_id: Uuid,
    /// Of the partition `Default`.
    partition_id: Option<Uuid>,
    queue: String,
    namespace: String,
    task: String,
    options: WireOptions,
}

/// Tell a queue its options, all of them.
///
/// One that is not sent is not told any more. The queue and its partition `Default` are made if they are not there.
#[utoipa::path(post, path = "/api/v1/configure", tag = "queues", request_body = ConfigureRequest, responses(
    (status = 200, description = "What the queue does now", body = ConfigureAnswer),
    (status = 409, description = "The queue holds jobs", body = crate::error::Failed),
    Refusals,
))]
async fn configure(
    scope: Scope<Configure>,
    Body(request): Body<ConfigureRequest>,
) -> Result<Json<ConfigureAnswer>, Error> {
    let queue = request.queue.ok_or_else(|| Error::bad("queue is required"))?;
    let broker = scope.on(&queue)?;
    let (namespace, task) = tags(&queue, request.namespace, request.task)?;
    let options = request.options.unwrap_or_default();
    options.check()?;
    let options = options.told(namespace, task);
    let number = broker.configure(&queue, &options).await?;
    let partition_id = broker.partition_id(&queue, "Default").await?.map(bugle::broker::PartitionId::uuid);
    Ok(Json(ConfigureAnswer {
        configured: true,
        queue_id: queue_id(number),
        partition_id,
        queue,
        namespace: options.tag_namespace.clone().unwrap_or_default(),
        task: options.tag_task.clone().unwrap_or_default(),
        options: WireOptions::in_force(&options),
    }))
}

/// The tags of a queue: those that were sent, or those in its name, as when it is made by a push.
fn tags(
    queue: &str,
    namespace: Option<String>,
    task: Option<String>,
) -> Result<(Option<String>, Option<String>), Error> {
    let mut parts = queue.split('.').map(str::to_owned);
    let (first, second) = (parts.next().filter(|_| queue.contains('.')), parts.next());
    let given = |tag: Option<String>| tag.filter(|tag| !tag.is_empty());
    let (namespace, task) = (given(namespace.or(first)), given(task.or(second)));
    if [&namespace, &task]
        .into_iter()
        .flatten()
        .any(|tag| tag.len() > 255 || tag.chars().any(char::is_control))
    {
        return Err(Error::bad(
            "a tag is too long or has control characters; use at most 255 bytes without them",
        ));
    }
    Ok((namespace, task))
}
