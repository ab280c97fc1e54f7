//! What the command tells its caller.

/// How a command ended; its number is part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok,
    /// What was asked cannot be done: the caller must change it.
    User,
    /// The database or this machine could not do it.
    Server,
    /// The database did not let this user in, or not do this.
    Auth,
    /// There was nothing to do it to.
    Nothing,
    /// A job that was waited for is dead, or a run failed.
    Dead,
    /// A job or run that was waited for was cancelled.
    Cancelled,
    /// A job or run that was waited for has not ended in time.
    TimedOut,
    /// The reader of the answer went away, as a shell reports death by SIGPIPE.
    ClosedPipe,
    /// Ended by this signal before it was done, as a shell reports it.
    Signal(u8),
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::User => 1,
            Self::Server => 2,
            Self::Auth => 3,
            Self::Nothing => 4,
            Self::Dead => 5,
            Self::Cancelled => 6,
            Self::TimedOut => 7,
            Self::ClosedPipe => 141,
            Self::Signal(number) => 128_u8.saturating_add(number),
        }
    }
}
