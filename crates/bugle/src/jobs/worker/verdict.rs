//! What shall become of a job, as its handler says.

use crate::jobs::enqueue::check_payload;
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

/// What shall become of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is done.
    Done,
    /// It is done, and this came of it: kept with the history. [`Verdict::done_with`] makes it of any value.
    DoneWith {
        /// The result.
        result: serde_json::Value,
    },
    /// The attempt failed: try again by the job's rule or the worker's, or dead when the attempts are used up.
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
    /// Not now: later, the attempt not counted.
    Snooze {
        /// How long to wait.
        delay: Duration,
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

impl Verdict {
    /// Done, and this came of it. A result that cannot be kept (over 256 KiB, or not to be written as JSON) makes the job dead with the
    /// code `result`: its work is done and must not be done again, but a person should know.
    pub fn done_with(result: &impl Serialize) -> Self {
        let kept = serde_json::value::to_raw_value(result)
            .map_err(|error| error.to_string())
            .and_then(|raw| {
                check_payload(raw).map_err(|error| error.to_string().replacen("payload", "result", 1))
            })
            .and_then(|raw| serde_json::from_str(raw.get()).map_err(|error| error.to_string()));
        match kept {
            Ok(result) => Self::DoneWith { result },
            Err(message) => Self::dead("result", message),
        }
    }

    /// The attempt failed: try again by rule.
    pub fn fail(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Fail { code: code.into(), message: message.into() }
    }

    /// The attempt failed: try again after `delay`.
    pub fn retry_in(delay: Duration, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::RetryIn { delay, code: code.into(), message: message.into() }
    }

    /// Not now: after `delay`, the attempt not counted.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self::Snooze { delay }
    }

    /// It can never succeed: dead at once.
    pub fn dead(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Dead { code: code.into(), message: message.into() }
    }
}

/// A handler's answer with a value: `Ok(Done(receipt))`. The value is kept with the history, as [`Verdict::done_with`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done<T>(pub T);

/// What a handler may return: nothing, [`Done`] with a value, a [`Verdict`], or a `Result` of these; any error means [`Verdict::Fail`].
pub trait IntoVerdict {
    /// The verdict that it stands for.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Verdict::Done
    }
}

impl<T: Serialize> IntoVerdict for Done<T> {
    fn into_verdict(self) -> Verdict {
        Verdict::done_with(&self.0)
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
            Err(error) => Verdict::fail(std::any::type_name::<E>(), format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAYLOAD_BYTES_MAX;

    #[test]
    fn results_become_verdicts() {
        assert_eq!(().into_verdict(), Verdict::Done);
        assert_eq!(Ok::<_, std::fmt::Error>(Verdict::Release).into_verdict(), Verdict::Release);
        let done = Ok::<_, std::fmt::Error>(Done([1, 2])).into_verdict();
        assert_eq!(done, Verdict::DoneWith { result: serde_json::json!([1, 2]) });
        let failed = Err::<(), _>(std::io::Error::other("no route")).into_verdict();
        assert_eq!(failed, Verdict::fail("std::io::error::Error", "no route"));
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_not_lost_silently() {
        for result in ["x".repeat(PAYLOAD_BYTES_MAX), "nul\0".to_owned()] {
            let Verdict::Dead { code, message } = Verdict::done_with(&result) else { panic!("kept") };
            assert!(code == "result" && message.starts_with("result "), "{message}");
        }
    }
}
