//! The leave to do something, as the argument of a handler.

use super::grant::Grant;
use super::right::{Need, Rights};
use super::{ASK_AGAIN_IN, Access, unknown};
use crate::app::App;
use crate::error::Error;
use axum::extract::FromRequestParts;
use axum::handler::Handler;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use bugle::access::Right;
use bugle::broker::{Broker, PartitionId};
use bugle::flow::{Flow, RunId};
use std::marker::PhantomData;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Who does something on a server that has no keys.
const ANYBODY: &str = "anonymous";

/// The leave to do what `N` needs, for the queues that the caller was given. Only the extractor makes one.
pub(crate) struct Scope<N> {
    app: App,
    grant: Grant,
    /// What the caller has shown.
    shown: Option<HeaderValue>,
    /// Control as it was before the grant was asked for.
    control: watch::Receiver<u64>,
    need: PhantomData<N>,
}

impl<N: Need> FromRequestParts<App> for Scope<N> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let (shown, control) = (parts.headers.get(AUTHORIZATION).cloned(), app.access().control());
        let grant =
            if N::RIGHTS.is_empty() { Grant::nothing() } else { app.access().grant(shown.as_ref()).await? };
        if !grant.allows_somewhere(N::RIGHTS) {
            return Err(refused(N::RIGHTS, "any queue"));
        }
        Ok(Self { app: app.clone(), grant, shown, control, need: PhantomData })
    }
}

impl<N: Need> Scope<N> {
    /// The broker, for something about this queue.
    pub(crate) fn on(&self, queue: &str) -> Result<&Broker, Error> {
        if self.sees(queue) {
            return Ok(self.app.broker_of_scope());
        }
        Err(refused(N::RIGHTS, &format!("queue {queue:?}")))
    }

    /// The broker, for something about the queue of this partition. Whoever may do it everywhere need not know which that is.
    pub(crate) async fn on_partition(&self, partition: PartitionId) -> Result<&Broker, Error> {
        if !self.sees_all() {
            let queue = self.app.queue_of(partition).await?;
            self.on(queue.as_deref().unwrap_or_default())?;
        }
        Ok(self.app.broker_of_scope())
    }

    /// The broker, for something about all queues at once.
    pub(crate) fn everywhere(&self) -> Result<&Broker, Error> {
        if self.grant.allows_everywhere(N::RIGHTS) {
            return Ok(self.app.broker_of_scope());
        }
        Err(refused(N::RIGHTS, "all queues"))
    }

    /// The broker, for a list of which only what [`Scope::sees`] is shown.
    pub(crate) fn seen(&self) -> &Broker {
        self.app.broker_of_scope()
    }

    /// The workflows, for something about this: a definition, a queue of steps or a signal. A key that is for queues whose names begin with some
    /// letters is for definitions and signals whose names begin so as well.
    pub(crate) fn flow_on(&self, what: &str, name: &str) -> Result<&Flow, Error> {
        if self.sees(name) {
            return Ok(self.app.flow_of_scope());
        }
        Err(refused(N::RIGHTS, &format!("{what} {name:?}")))
    }

    /// The workflows, for something about a run. Whoever may do it everywhere need not know of which definition it is.
    pub(crate) async fn flow_of_run(&self, run: RunId) -> Result<&Flow, Error> {
        let flow = self.app.flow_of_scope();
        if !self.sees_all() {
            let found = flow.show(run).await?;
            self.flow_on("definition", found.as_ref().map_or("", |found| &found.definition))?;
        }
        Ok(flow)
    }

    /// The workflows, for something about all of them at once.
    pub(crate) fn flow_everywhere(&self) -> Result<&Flow, Error> {
        if self.sees_all() {
            return Ok(self.app.flow_of_scope());
        }
        Err(refused(N::RIGHTS, "all workflows"))
    }

    /// The workflows, for a list of which only what [`Scope::sees`] is shown.
    pub(crate) fn flow_seen(&self) -> &Flow {
        self.app.flow_of_scope()
    }

    /// Has the caller the rights that something else needs as well, for this name?
    pub(crate) fn has<M: Need>(&self, name: &str) -> bool {
        self.grant.allows(M::RIGHTS, name)
    }

    /// Does it reach this queue?
    pub(crate) fn sees(&self, queue: &str) -> bool {
        self.grant.allows(N::RIGHTS, queue)
    }

    /// Does it reach every queue?
    pub(crate) fn sees_all(&self) -> bool {
        self.grant.allows_everywhere(N::RIGHTS)
    }

    /// How much of `wait` it holds for: whoever waits does not wait longer.
    pub(crate) fn wait_within(&self, wait: Duration) -> Duration {
        let left = self.grant.expires().map(|expires| expires.saturating_duration_since(Instant::now()));
        left.map_or(wait, |left| left.min(wait))
    }

    /// Refuses when its time has passed.
    pub(crate) fn check_time(&self) -> Result<(), Error> {
        if self.grant.expires().is_some_and(|expires| expires <= Instant::now()) {
            return Err(unknown(
                "Authentication required: the API key or token has expired; use another one",
            ));
        }
        Ok(())
    }

    /// Returns when it was revoked, with what to answer: for those who wait. Control tells that a key may have been, also when that may have been
    /// missed: nobody asks by a clock.
    pub(crate) async fn is_revoked(&self) -> Error {
        let (access, mut control) = (self.app.access(), self.control.clone());
        loop {
            if control.changed().await.is_err() {
                return std::future::pending().await; // the engine has stopped, which ends every wait
            }
            // Made when it is needed: thousands wait here, and it is large.
            while let Err(error) = Box::pin(self.ask_again(access)).await {
                if error.is_about_the_caller() {
                    return error;
                }
                // The database cannot be asked just now, and no ring tells when it can be: whoever gave up here would wait on with a revoked key.
                tokio::time::sleep(ASK_AGAIN_IN).await;
            }
        }
    }

    /// Does it still hold?
    async fn ask_again(&self, access: &Access) -> Result<(), Error> {
        let grant = access.grant(self.shown.as_ref()).await?;
        if grant.is_same(&self.grant) { Ok(()) } else { Err(refused(N::RIGHTS, "what is waited for")) }
    }

    /// Who the caller is, by a proof.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.grant.subject()
    }

    /// Who the caller is, for the log of a workflow.
    pub(crate) fn actor(&self) -> &str {
        self.subject().unwrap_or(ANYBODY)
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }
}

fn refused(rights: Rights, what: &str) -> Error {
    let way = |way: &&[Right]| way.iter().map(|right| right.as_str()).collect::<Vec<_>>().join(" and ");
    let ways: Vec<String> = rights.iter().map(way).collect();
    let sentence = format!(
        "Insufficient permissions: this needs {} for {what}; use a key that has it",
        ways.join(", or ")
    );
    Error::new(StatusCode::FORBIDDEN, sentence)
}

/// The arguments of a handler, the first of which is a scope.
pub(crate) trait Scoped {}

impl<M, N: Need> Scoped for (M, Scope<N>) {}
impl<M, N: Need, A> Scoped for (M, Scope<N>, A) {}
impl<M, N: Need, A, B> Scoped for (M, Scope<N>, A, B) {}
impl<M, N: Need, A, B, C> Scoped for (M, Scope<N>, A, B, C) {}

/// Compiles for handlers alone whose first argument is a scope.
pub(crate) fn is_scoped<H: Handler<T, App>, T: Scoped>(_: &H) {}
