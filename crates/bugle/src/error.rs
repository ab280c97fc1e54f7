//! What can go wrong, and what may have happened all the same.

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What the caller may conclude about a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did not happen. Retrying is safe.
    Refused,
    /// It may have happened. Retry only with the same key.
    Unknown,
}

/// Why a call failed. [`Error::outcome`] says whether its write may have happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that may not be written; nothing was sent.
    #[error("{what} {fault}; {next}")]
    Invalid {
        /// The name of the value.
        what: &'static str,
        /// What is wrong with it, with the value.
        fault: String,
        /// What to do about it.
        next: &'static str,
    },
    /// The database answered with an error: the statement did not happen.
    #[error("the database refused it: {message}{}", hint.as_ref().map(|h| format!(" {h}")).unwrap_or_default())]
    Refused {
        /// PostgreSQL's message.
        message: String,
        /// PostgreSQL's hint, when there is one.
        hint: Option<String>,
        /// PostgreSQL's five-character code.
        code: String,
    },
    /// No connection could be had: nothing was sent.
    #[error("no connection to the database: {0}; check that it runs and that the address is right")]
    NoConnection(#[source] sqlx::Error),
    /// The connection broke while the database was at work: it may have happened.
    #[error(
        "the connection broke and it is unknown whether the database did it: {0}; try again with the same key"
    )]
    Unknown(#[source] sqlx::Error),
    /// The database did it, but its answer could not be read.
    #[error(
        "the database's answer could not be read: {0}; check that no other program writes to Bugle's tables"
    )]
    Answer(#[source] sqlx::Error),
    /// A part of Bugle itself failed.
    #[error("{0}; this is a mistake in Bugle, please report it")]
    Bug(String),
    /// The payload could not be turned into JSON, or not back into the job's type.
    #[error("payload of a job of kind {kind:?} does not fit: {source}; check the type's serde attributes")]
    Payload {
        /// The job's kind.
        kind: String,
        /// What serde found.
        source: serde_json::Error,
    },
    /// What a job's handler returned does not fit the type that was waited for.
    #[error("result of job {id} does not fit: {source}; wait for the type that its handler returns")]
    Result {
        /// The job's number.
        id: crate::JobId,
        /// What serde found.
        source: serde_json::Error,
    },
    /// There is no such job, or no longer.
    #[error(
        "there is no job {id} in namespace {namespace}, or no longer; look with `bugle job ls` (ended jobs are kept for some days)"
    )]
    NoJob {
        /// The job's number.
        id: crate::JobId,
        /// Where it was looked for.
        namespace: String,
    },
    /// A queue of messages holds as many as it may: nothing was written.
    #[error(
        "queue {queue:?} is full: {messages_max} of its messages are not done by all of its groups; pop and ack some, or raise its messages_max"
    )]
    QueueFull {
        /// The queue.
        queue: String,
        /// How many it may hold.
        messages_max: i32,
    },
    /// A step that was claimed is not the caller's any more: what was told about it counts for nothing.
    #[error("step {step:?} of run {run} {fault}; {next}")]
    StepLost {
        /// The run.
        run: crate::flow::RunId,
        /// The step's name.
        step: String,
        /// What has become of it.
        fault: String,
        /// What to do about it.
        next: &'static str,
    },
    /// The schema is not what this version needs.
    #[error(transparent)]
    Migrate(#[from] crate::pg::migrate::Error),
    /// Too many consumers wait at once.
    #[error(transparent)]
    TooMany(#[from] bugle_wake::TooMany),
    /// The server's settings would break a promise.
    #[error("{0}")]
    Unsafe(String),
}

impl Error {
    /// Whether the write may have happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown(_) | Self::Answer(_) => Outcome::Unknown,
            _ => Outcome::Refused,
        }
    }

    /// May it mean that the database is away? A connection that broke is made anew first.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self, Self::NoConnection(error) if bugle_wake::is_away(error))
    }

    /// Was it refused because somebody else held a lock for too long?
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "55P03")
    }

    /// Was it refused only because of what others did at that moment: a deadlock, a serialization failure, a lock that was not to be had?
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if ["40P01", "40001", "55P03"].contains(&code.as_str()))
    }

    /// A failed attempt to get a connection: nothing was sent. A server that is there and says no (wrong password, no such database)
    /// has refused; one that is starting, stopping or full is as good as away.
    pub(crate) fn connecting(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(answer)
                if !answer.code().is_some_and(|code| is_about_the_server(&code)) =>
            {
                Self::refused(answer.as_ref())
            }
            _ => Self::NoConnection(error),
        }
    }

    /// A failed statement. Only an ordinary error answer proves that it did not happen: a server that stops or breaks down, or a cut
    /// connection, may have committed first. (A disk that fails at the flush of a commit ends in a PANIC, and the job is there afterwards.)
    pub(crate) fn executing(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(answer) => {
                let severity = answer.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
                let ended = severity.is_none_or(|s| matches!(s, PgSeverity::Fatal | PgSeverity::Panic));
                let doubtful =
                    answer.code().is_some_and(|code| is_about_the_server(&code) || code == "40003");
                if ended || doubtful { Self::Unknown(error) } else { Self::refused(answer.as_ref()) }
            }
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Self::NoConnection(error),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound => {
                Self::Answer(error)
            }
            _ => Self::Unknown(error),
        }
    }

    /// The same for another caller whose write went the same way.
    pub(crate) fn again(&self) -> Self {
        let copy = |error: &sqlx::Error| sqlx::Error::Io(std::io::Error::other(error.to_string()));
        match self {
            Self::Refused { message, hint, code } => {
                Self::Refused { message: message.clone(), hint: hint.clone(), code: code.clone() }
            }
            Self::NoConnection(error) => Self::NoConnection(copy(error)),
            Self::Unknown(error) => Self::Unknown(copy(error)),
            Self::Answer(error) => Self::Answer(copy(error)),
            other => Self::Bug(other.to_string()),
        }
    }

    fn refused(answer: &dyn DatabaseError) -> Self {
        let hint = answer.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::hint);
        Self::Refused {
            message: answer.message().to_owned(),
            hint: hint.map(|hint| format!("({hint})")),
            code: answer.code().unwrap_or_default().into_owned(),
        }
    }

    /// A statement that was not answered in time.
    pub(crate) fn timed_out() -> Self {
        Self::Unknown(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))
    }
}

/// Is this the code of a server that is starting, stopping, breaking down or full, rather than of a statement?
fn is_about_the_server(code: &str) -> bool {
    ["57P", "08", "533", "58"].iter().any(|class| code.starts_with(class))
}
