//! What can go wrong, and what may have happened all the same.

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
    /// The payload could not be turned into JSON, or not back into the job's type.
    #[error("payload of a job of kind {kind:?} does not fit: {source}; check the type's serde attributes")]
    Payload {
        /// The job's kind.
        kind: String,
        /// What serde found.
        source: serde_json::Error,
    },
    /// The schema is not what this version needs.
    #[error(transparent)]
    Migrate(#[from] crate::pg::migrate::Error),
    /// The server's settings would break a promise.
    #[error("{0}")]
    Unsafe(String),
}

impl Error {
    /// Whether the write may have happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown(_) => Outcome::Unknown,
            _ => Outcome::Refused,
        }
    }

    /// A failed attempt to get a connection: nothing was sent.
    pub(crate) fn connecting(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(_) => Self::executing(error),
            _ => Self::NoConnection(error),
        }
    }

    /// A failed statement. Only an ordinary error answer proves that it did not happen: a server that is told to stop, or a cut
    /// connection, may have committed first.
    pub(crate) fn executing(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(answer) => {
                let code = answer.code().unwrap_or_default().into_owned();
                if code.starts_with("57P") || code.starts_with("08") || code == "40003" {
                    return Self::Unknown(error);
                }
                let hint = answer
                    .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
                    .and_then(|e| e.hint())
                    .map(|h| format!("({h})"));
                Self::Refused { message: answer.message().to_owned(), hint, code }
            }
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Self::NoConnection(error),
            _ => Self::Unknown(error),
        }
    }
}
