//! Handlers: which code runs for which kind.

use super::counters::{Counters, KindCounters};
use super::ctx::{Argument, Ctx, SharedState};
use super::verdict::{IntoVerdict, Verdict};
use crate::jobs::{Claimed, Job};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// An async function that takes a job, and after it up to three of [`Ctx`] and [`Shared`](super::Shared), in any order. `A` stands for
/// those, and is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot handle jobs",
    label = "not a handler",
    note = "a handler is an async fn or closure of a Job and up to three of Ctx and Shared<T>, whose types are written out",
    note = "it is Send + Sync, its future is Send, and it returns (), Done(value), a Verdict, or a Result of these"
)]
pub trait Handler<J, A>: Send + Sync + 'static {
    /// Runs it; `None`: something that it needs is not shared.
    fn call(&self, job: J, ctx: &Ctx) -> Option<BoxFuture<'static, Verdict>>;
    /// The name of a type that it needs and that is not shared.
    fn missing(shared: &SharedState) -> Option<&'static str>;
}

macro_rules! handlers {
    ($(($($argument:ident),*);)*) => {$(
        impl<J, F, Fut, $($argument: Argument,)*> Handler<J, ($($argument,)*)> for F
        where
            F: Fn(J, $($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoVerdict> + Send + 'static,
        {
            #[allow(unused_variables)] // not all take arguments
            fn call(&self, job: J, ctx: &Ctx) -> Option<BoxFuture<'static, Verdict>> {
                Some(self(job, $($argument::of(ctx)?),*).map(IntoVerdict::into_verdict).boxed())
            }

            #[allow(unused_variables)]
            fn missing(shared: &SharedState) -> Option<&'static str> {
                None$(.or_else(|| $argument::missing(shared)))*
            }
        }
    )*};
}

handlers! {
    ();
    (A);
    (A, B);
    (A, B, C);
}

type Run = dyn Fn(Claimed, &Ctx) -> Option<BoxFuture<'static, Verdict>> + Send + Sync;

/// What to do with jobs of one kind.
#[derive(Clone)]
struct Entry {
    run: Arc<Run>,
    timeout: Option<Duration>,
    missing: fn(&SharedState) -> Option<&'static str>,
}

/// What a worker can do.
#[derive(Default, Clone)]
pub(super) struct Handlers {
    by_kind: HashMap<&'static str, Entry>,
    any: Option<Entry>,
}

impl Handlers {
    pub(super) fn add<J: Job, A, H: Handler<J, A>>(&mut self, handler: H) {
        let run = move |claimed: Claimed, ctx: &Ctx| match serde_json::from_str::<J>(claimed.payload.get()) {
            Ok(job) => handler.call(job, ctx),
            Err(error) => {
                let message = format!("payload does not fit {}: {error}", std::any::type_name::<J>());
                Some(std::future::ready(Verdict::fail("payload", message)).boxed())
            }
        };
        self.by_kind.insert(J::KIND, Entry { run: Arc::new(run), timeout: J::TIMEOUT, missing: H::missing });
    }

    pub(super) fn add_any<A, H: Handler<Claimed, A>>(&mut self, handler: H) {
        let run = move |claimed, ctx: &Ctx| handler.call(claimed, ctx);
        self.any = Some(Entry { run: Arc::new(run), timeout: None, missing: H::missing });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// The kinds that have a handler of their own.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.by_kind.keys().copied()
    }

    /// The name of a type that some handler needs and that is not shared.
    pub(super) fn missing(&self, shared: &SharedState) -> Option<&'static str> {
        self.by_kind.values().chain(&self.any).find_map(|entry| (entry.missing)(shared))
    }

    /// Everything about one kind, found once for each job.
    pub(super) fn of<'a>(&'a self, kind: &str, counters: &'a Counters) -> Known<'a> {
        let entry = self.by_kind.get(kind).or(self.any.as_ref());
        Known { entry, counters: counters.kind(kind) }
    }
}

/// What a worker knows of a job's kind.
pub(super) struct Known<'a> {
    entry: Option<&'a Entry>,
    pub(super) counters: &'a KindCounters,
}

impl Known<'_> {
    /// How long such a job may run, unless the worker says otherwise.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.entry.and_then(|entry| entry.timeout)
    }

    /// Runs the handler. A panic is a failed attempt like any other.
    pub(super) async fn run(&self, claimed: Claimed, ctx: &Ctx) -> Verdict {
        let Some(entry) = self.entry else {
            let message = format!("worker {} has no handler for kind {:?}", ctx.worker, claimed.kind);
            return Verdict::fail("no_handler", message);
        };
        // The handler's first part runs outside its future: guard the call as well.
        let guarded = AssertUnwindSafe(async {
            match (entry.run)(claimed, ctx) {
                Some(running) => running.await,
                None => {
                    Verdict::fail("not_shared", "the handler takes something that the worker does not share")
                }
            }
        });
        guarded.catch_unwind().await.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "the handler panicked".to_owned());
            Verdict::fail("panic", message)
        })
    }
}
