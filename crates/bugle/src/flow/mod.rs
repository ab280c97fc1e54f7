//! Flow: workflows of steps, in namespaces. A **definition** is a DAG of steps, immutable per version; a **run** is one execution of it; a step
//! that is ready is carried by a job, so that it is claimed, leased, renewed, put off and found again as any job is ([`crate::jobs`]).
//!
//! Whoever ends a step counts it down for its children, makes ready what may run now and ends the run of which nothing is left, in the same
//! statement: there is no orchestrator in between (`migrations/core/0023_go_on.sql`).

pub mod archive;
mod begin;
mod board;
mod claim;
mod coordinate;
mod counters;
pub mod definition;
mod engine;
mod hold;
pub mod inspect;
mod operate;
mod receipt;
mod route;
mod run;
mod setting;
mod statements;
mod step;
mod worker;

pub use board::{Board, Coordination, Unserved};
pub use claim::{Claim, ClaimedStep, StepQueue};
pub use coordinate::Coordinators;
pub use counters::Counters;
pub use definition::Definition;
pub use hold::StepEnd;
pub use operate::By;
pub use receipt::StepReceipt;
pub use route::{ROUTES_MAX, Route};
pub use run::{Run, RunHandle, RunId, RunState, Start, StepRow};
pub use setting::{For, Settings};
pub use step::Step;
pub use worker::StepWorker;

pub(crate) use statements::Statements;

use crate::fuse::Fuse;
use crate::{Bugle, Error};
use begin::Begins;
use sqlx::types::Json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The workflows of a [`Bugle`], in its namespace. Cheap to clone.
#[derive(Clone)]
pub struct Flow {
    bugle: Bugle,
}

/// What all flows of a namespace share.
pub(crate) struct Shared {
    statements: Arc<Statements>,
    begins: Fuse<Begins>,
    /// Numbers of queues of steps, by their names: neither ever changes.
    queues: Mutex<HashMap<Box<str>, i32>>,
}

impl Shared {
    pub(crate) fn new(statements: Arc<Statements>) -> Self {
        Self { statements, begins: Fuse::default(), queues: Mutex::default() }
    }
}

/// A definition as the database knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defined {
    /// Its version.
    pub version: i32,
    /// False: this version was there already, with the same content.
    pub is_new: bool,
}

impl Bugle {
    /// The workflows of this namespace.
    #[must_use]
    pub fn flow(&self) -> Flow {
        Flow { bugle: self.clone() }
    }
}

impl Flow {
    fn statements(&self) -> &Statements {
        &self.bugle.flow_shared().statements
    }

    /// What this process has done for workflows, in all namespaces that it works in, to be read while it does; as a text: [`Bugle::metrics`].
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.bugle.flow_counters()
    }

    /// Defines a workflow. The same content again is the version that is there; another content is another version, and a version never changes.
    pub async fn define(&self, definition: &Definition) -> Result<Defined, Error> {
        let (version, is_new) = sqlx::query_as(self.statements().define())
            .bind(Json(definition.to_json()))
            .bind(definition.hash())
            .bind(self.bugle.namespace().as_str())
            .fetch_one(self.bugle.pool())
            .await
            .map_err(Error::executing)?;
        Ok(Defined { version, is_new })
    }

    /// Sends a signal: one step that waits for this key gets it, now or when it begins to wait.
    pub async fn signal(
        &self,
        key: &str,
        payload: &impl serde::Serialize,
        actor: Option<&str>,
    ) -> Result<(), Error> {
        let payload = serde_json::value::to_raw_value(payload)
            .map_err(|source| Error::Payload { kind: format!("signal {key}"), source })?;
        sqlx::query(self.statements().send_signal())
            .bind(key)
            .bind(Json(payload))
            .bind(self.bugle.namespace().as_str())
            .bind(actor)
            .execute(self.bugle.pool())
            .await
            .map_err(Error::executing)
            .map(drop)
    }
}

/// The page's code is compiled with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/flow.md")]
struct FlowPage;
