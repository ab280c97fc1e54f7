//! What all requests share.

use crate::access::Access;
use crate::maintenance::Refused;
use crate::meter::Meter;
use crate::patience::Patience;
use bugle::Bugle;
use bugle::broker::{Broker, Counts, PartitionId};
use bugle::flow::Flow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Partitions whose queues are remembered: some megabytes. Above that it begins anew.
const QUEUES_MAX: usize = 100_000;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    inner: Arc<Inner>,
}

struct Inner {
    bugle: Bugle,
    broker: Broker,
    flow: Flow,
    access: Access,
    /// Queues of partitions, for callers whose rights end with some queues. Neither a queue nor a partition ever gets another name.
    queues: Mutex<HashMap<PartitionId, Arc<str>>>,
    refused: Refused,
    meter: Meter,
    patience: Patience,
    stopping: CancellationToken,
    started: Instant,
}

impl App {
    pub(crate) fn new(bugle: Bugle, access: Access, patience: Patience) -> Self {
        let (broker, flow, stopping) = (bugle.broker(), bugle.flow(), CancellationToken::new());
        let (queues, refused, meter) = (Mutex::default(), Refused::new(), Meter::default());
        let started = Instant::now();
        let inner =
            Inner { bugle, broker, flow, access, queues, refused, meter, patience, stopping, started };
        Self { inner: Arc::new(inner) }
    }

    /// For what needs no right: is the database there, what was counted.
    pub(crate) fn bugle(&self) -> &Bugle {
        &self.inner.bugle
    }

    /// What its broker has counted: it names no queue.
    pub(crate) fn broker_counts(&self) -> &Counts {
        self.inner.broker.counts()
    }

    /// Handlers get it from their scope alone, which has checked what they may.
    pub(crate) fn broker_of_scope(&self) -> &Broker {
        &self.inner.broker
    }

    /// The same for workflows.
    pub(crate) fn flow_of_scope(&self) -> &Flow {
        &self.inner.flow
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    /// What is refused during maintenance.
    pub(crate) fn refused(&self) -> &Refused {
        &self.inner.refused
    }

    /// What is counted.
    pub(crate) fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    /// How long clients that are slow are waited for.
    pub(crate) fn patience(&self) -> Patience {
        self.inner.patience
    }

    /// Raised when the server stops: whoever waits answers.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.inner.stopping
    }

    /// The queue of a partition; `None`: there is no such partition.
    pub(crate) async fn queue_of(&self, partition: PartitionId) -> Result<Option<Arc<str>>, bugle::Error> {
        let queues = || self.inner.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues().get(&partition) {
            return Ok(Some(queue.clone()));
        }
        let Some(queue) = self.inner.broker.queue_of(partition).await? else { return Ok(None) };
        let queue: Arc<str> = queue.into();
        let mut queues = queues();
        if queues.len() >= QUEUES_MAX {
            queues.clear();
        }
        queues.insert(partition, queue.clone());
        Ok(Some(queue))
    }

    pub(crate) fn started(&self) -> Instant {
        self.inner.started
    }
}
