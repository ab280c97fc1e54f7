//! Handlers: which code runs for which kind, and what its result means.

use super::super::{Claimed, Job, JobId};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What shall become of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done.
    Done,
    /// The attempt failed: try again by the worker's rule, or dead when the attempts are used up.
    Fail {
        /// A short name of the error, for grouping.
        code: String,
        /// The error in words.
        message: String,
    },
    /// The attempt failed: try again after this time, or dead when the attempts are used up.
    RetryIn {
        /// How long to wait.
        delay: Duration,
        /// A short name of the error, for grouping.
        code: String,
        /// The error in words.
        message: String,
    },
    /// It can never succeed: dead at once.
    Dead {
        /// A short name of the error, for grouping.
        code: String,
        /// The error in words.
        message: String,
    },
    /// Give it back untouched, for any worker, the attempt not counted.
    Release,
}

/// What a handler may return: nothing, a [`Verdict`], or a `Result` of either; any error means [`Verdict::Fail`].
pub trait IntoVerdict {
    /// The verdict that it stands for.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Verdict::Done
    }
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Verdict {
        self
    }
}

impl<T: IntoVerdict, E: Display> IntoVerdict for Result<T, E> {
    fn into_verdict(self) -> Verdict {
        match self {
            Ok(value) => value.into_verdict(),
            // `{:#}` prints the whole chain of an anyhow error, and the same as `{}` for most others.
            Err(error) => {
                Verdict::Fail { code: std::any::type_name::<E>().to_owned(), message: format!("{error:#}") }
            }
        }
    }
}

/// What a handler may want to know besides the job itself.
#[derive(Debug, Clone)]
pub struct Ctx {
    /// The job's number: the same in every attempt.
    pub id: JobId,
    /// Which attempt this is, counted from 1.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// The worker's name.
    pub worker: Arc<str>,
    /// Cancelled when the lease was lost: whatever the handler still does, somebody else does as well.
    pub lost: CancellationToken,
}

type Handler = Arc<dyn Fn(Claimed, Ctx) -> BoxFuture<'static, Verdict> + Send + Sync>;

#[derive(Default, Clone)]
pub(super) struct Handlers {
    by_kind: HashMap<&'static str, Handler>,
    any: Option<Handler>,
}

impl Handlers {
    pub(super) fn add<J, F, Fut>(&mut self, handler: F)
    where
        J: Job,
        F: Fn(J, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        let run = move |claimed: Claimed, ctx| match serde_json::from_str::<J>(claimed.payload.get()) {
            Ok(job) => handler(job, ctx).map(IntoVerdict::into_verdict).boxed(),
            Err(error) => {
                let message = format!("payload does not fit {}: {error}", std::any::type_name::<J>());
                std::future::ready(Verdict::Fail { code: "payload".to_owned(), message }).boxed()
            }
        };
        self.by_kind.insert(J::KIND, Arc::new(run));
    }

    pub(super) fn add_any<F, Fut>(&mut self, handler: F)
    where
        F: Fn(Claimed, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.any =
            Some(Arc::new(move |claimed, ctx| handler(claimed, ctx).map(IntoVerdict::into_verdict).boxed()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// Runs the handler of the job's kind. A panic is a failed attempt like any other.
    pub(super) async fn run(&self, claimed: Claimed, ctx: Ctx) -> Verdict {
        let Some(handler) = self.by_kind.get(claimed.kind.as_str()).or(self.any.as_ref()) else {
            let message = format!("worker {} has no handler for kind {:?}", ctx.worker, claimed.kind);
            return Verdict::Fail { code: "no_handler".to_owned(), message };
        };
        // The handler's first part runs outside its future: guard the call as well.
        let guarded = AssertUnwindSafe(async { handler(claimed, ctx).await });
        guarded.catch_unwind().await.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "the handler panicked".to_owned());
            Verdict::Fail { code: "panic".to_owned(), message }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_verdicts() {
        assert_eq!(().into_verdict(), Verdict::Done);
        assert_eq!(Ok::<_, std::fmt::Error>(Verdict::Release).into_verdict(), Verdict::Release);
        let failed = Err::<(), _>(std::io::Error::other("no route")).into_verdict();
        assert_eq!(
            failed,
            Verdict::Fail { code: "std::io::error::Error".into(), message: "no route".into() }
        );
    }
}
