//! What a handler is given: one attempt of one step, with what it needs.

use super::Flow;
use super::begin::{Begun, Place};
use super::run::RunId;
use crate::{Ctx, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sqlx::PgTransaction;
use sqlx::types::Json;
use std::collections::HashMap;
use tokio_util::sync::CancellationToken;

/// One attempt of one step, or of one element of a map.
#[non_exhaustive]
pub struct Step {
    /// The run.
    pub run: RunId,
    /// The step's name in the definition.
    pub name: String,
    /// The definition's name.
    pub definition: String,
    /// The version by which the run goes.
    pub version: i32,
    /// Which element of a map this is, from 1; 0: the step is no map.
    pub index: i32,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts the step has.
    pub attempts: u16,
    /// Cancelled when the handler shall stop: the lease was lost, somebody cancelled the run, or the worker drains no longer. The handler itself
    /// is dropped then; this is for what it has started elsewhere.
    pub stop: CancellationToken,
    place: Place,
    flow: Flow,
    ctx: Ctx,
    created_micros: i64,
    input: Option<Json<Box<RawValue>>>,
    outputs: HashMap<String, Box<RawValue>>,
    element: Option<Json<Box<RawValue>>>,
    checkpoint: Option<Json<Box<RawValue>>>,
}

impl Step {
    pub(super) fn new(flow: &Flow, ctx: Ctx, place: Place, begun: Begun) -> Result<Self, serde_json::Error> {
        let outputs = match &begun.parents {
            Some(parents) => serde_json::from_str(parents.0.get())?,
            None => HashMap::new(),
        };
        Ok(Self {
            run: RunId(place.0),
            name: begun.step,
            definition: begun.definition,
            version: begun.version,
            index: place.2,
            attempt: ctx.attempt,
            attempts: begun.attempts.unsigned_abs(),
            stop: ctx.stop.clone(),
            place,
            flow: flow.clone(),
            ctx,
            created_micros: begun.created_at.timestamp_micros(),
            input: begun.input,
            outputs,
            element: begun.element,
            checkpoint: begun.checkpoint,
        })
    }

    /// The namespace of its run.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.flow.bugle.namespace().as_str()
    }

    /// What the run was started with.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read(self.input.as_ref().map(|json| &*json.0))
    }

    /// What a parent brought about; of a map the list of what its elements did. An error for a step that is no parent, or was skipped.
    pub fn output<T: DeserializeOwned>(&self, parent: &str) -> Result<T, serde_json::Error> {
        read(self.outputs.get(parent).map(|json| &**json))
    }

    /// Is there an output of this parent? Not when it failed or was skipped.
    #[must_use]
    pub fn has_output(&self, parent: &str) -> bool {
        self.outputs.contains_key(parent)
    }

    /// Of a map: the element of the list that this attempt is for.
    pub fn element<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read(self.element.as_ref().map(|json| &*json.0))
    }

    /// What an earlier attempt has kept with [`Step::save_checkpoint`].
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.checkpoint.as_ref().map(|json| serde_json::from_str(json.0.get())).transpose()
    }

    /// Keeps how far this attempt has come, for the next one. `false`: the step is not this attempt's any more.
    pub async fn save_checkpoint(&self, checkpoint: &impl Serialize) -> Result<bool, Error> {
        self.save(Some(self.json(checkpoint)?), None).await
    }

    /// Says how far this attempt has come, for people. `false`: the step is not this attempt's any more.
    pub async fn progress(&self, progress: &impl Serialize) -> Result<bool, Error> {
        self.save(None, Some(self.json(progress)?)).await
    }

    /// A text that is the same in every attempt of this step and belongs to no other: for services that take an idempotency key.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.place.idempotency_key(self.created_micros)
    }

    /// Ends the step inside your own transaction, with its output: its effects and its end are committed together, or neither is. As
    /// [`Ctx::complete_in_with`] for jobs; the children begin when you commit.
    pub async fn complete_in(
        &self,
        tx: &mut PgTransaction<'_>,
        output: &impl Serialize,
    ) -> Result<(), Error> {
        self.ctx.complete_in_with(tx, output).await
    }

    fn json(&self, value: &impl Serialize) -> Result<Box<RawValue>, Error> {
        serde_json::value::to_raw_value(value)
            .map_err(|source| Error::Payload { kind: self.name.clone(), source })
    }

    async fn save(
        &self,
        checkpoint: Option<Box<RawValue>>,
        progress: Option<Box<RawValue>>,
    ) -> Result<bool, Error> {
        let Place(run, no, index, epoch) = self.place;
        sqlx::query_scalar(self.flow.statements().save_checkpoint())
            .bind(run)
            .bind(no)
            .bind(index)
            .bind(epoch)
            .bind(self.ctx.token())
            .bind(checkpoint.map(Json))
            .bind(progress.map(Json))
            .fetch_one(self.flow.bugle.pool())
            .await
            .map_err(Error::executing)
    }
}

fn read<T: DeserializeOwned>(json: Option<&RawValue>) -> Result<T, serde_json::Error> {
    serde_json::from_str(json.map_or("null", RawValue::get))
}
