//! What was found, and what to do about it.

use crate::failure::Failure;
use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, but it will not for ever, or not as well as it could.
    Warn,
    /// A promise is broken, or nothing works.
    Fail,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) check: &'static str,
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, found: found.into(), fix: None }
    }

    pub(super) fn warn(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, check, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Fail, check, found: found.into(), fix: Some(fix.into()) }
    }

    /// The check itself could not be made.
    pub(super) fn unchecked(check: &'static str, failure: &Failure) -> Self {
        Self::warn(
            check,
            format!("could not be checked: {failure}"),
            "run it as a role that may look: GRANT pg_monitor TO the role",
        )
    }
}
