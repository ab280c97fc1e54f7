//! The faults that can be asked for.
use std::time::Duration;

use super::gate::Hold;
use super::statement::Statement;

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests: from the client to PostgreSQL.
    ToServer,
    /// Answers and notifications: from PostgreSQL to the client.
    ToClient,
    /// Both ways.
    Both,
}

impl Direction {
    pub(super) fn covers(self, way: Self) -> bool {
        self == Self::Both || self == way
    }
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// RST: the peer's next read or write fails with "connection reset".
    Reset,
    /// FIN: the peer reads an orderly end of the stream.
    Close,
}

/// Which connections a fault is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients {
    /// All, now and later.
    All,
    /// Those whose startup message names this `application_name`.
    Application(String),
    /// The connection with this number; the first one that the proxy accepted is 0.
    Index(usize),
    /// Those accepted before the connection of this number: "all so far", while later ones are spared.
    Before(usize),
}

impl Clients {
    /// Those whose startup message names this `application_name`.
    #[must_use]
    pub fn application(name: &str) -> Self {
        Self::Application(name.to_owned())
    }

    pub(super) fn cover(&self, index: usize, application: &str) -> bool {
        match self {
            Self::All => true,
            Self::Application(name) => name == application,
            Self::Index(wanted) => *wanted == index,
            Self::Before(end) => index < *end,
        }
    }
}

/// When the connection of a matching statement is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    BeforeForward,
    AfterForward,
    AfterAnswer,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Delay(Direction, Duration),
    Throttle(Direction, u32),
    Slice(Direction, usize),
    Stall(Direction),
    BlackHole(Direction),
    HalfClose(Direction),
    Cut(Cut),
    CutStatement(Moment, Statement),
    DropNotifications,
    Gate(Statement, Hold),
}

/// Something that goes wrong between a client and PostgreSQL, while it is set.
///
/// By default it concerns every connection and strikes every time; [`on`](Self::on), [`next`](Self::next)
/// and [`with_probability`](Self::with_probability) narrow it.
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until `Proxy::set` is given it"]
pub struct Fault {
    pub(super) kind: Kind,
    pub(super) clients: Clients,
    pub(super) hits_max: u64,
    pub(super) chance: Option<(f64, u64)>,
}

impl Fault {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, clients: Clients::All, hits_max: u64::MAX, chance: None }
    }

    /// Bytes arrive `by` later. It is latency, not a rate: later bytes do not queue behind earlier sleeps.
    /// A hit is one read's worth of bytes.
    pub fn delay(direction: Direction, by: Duration) -> Self {
        Self::new(Kind::Delay(direction, by))
    }

    /// At most `bytes_per_second` pass (at least 1). A hit is one read's worth of bytes.
    pub fn throttle(direction: Direction, bytes_per_second: u32) -> Self {
        Self::new(Kind::Throttle(direction, bytes_per_second.max(1)))
    }

    /// Bytes are written `bytes` at a time (at least 1), each with its own system call. A hit is one read's worth of
    /// bytes.
    pub fn slice(direction: Direction, bytes: usize) -> Self {
        Self::new(Kind::Slice(direction, bytes.max(1)))
    }

    /// A network partition that TCP survives: nothing passes, and **all of it arrives late** once lifted.
    /// A hit is one read's worth of bytes held.
    pub fn stall(direction: Direction) -> Self {
        Self::new(Kind::Stall(direction))
    }

    /// A half-open connection: bytes are accepted and lost, and so is the news of a close.
    ///
    /// What lost bytes can never be whole again: when the fault is lifted, such connections are reset on both
    /// sides. A hit is one connection and direction that lost bytes; silence hits nothing.
    pub fn black_hole(direction: Direction) -> Self {
        Self::new(Kind::BlackHole(direction))
    }

    /// Ends one direction with FIN; what is sent that way afterwards is lost. The other direction stays.
    /// A hit is one connection and direction.
    pub fn half_close(direction: Direction) -> Self {
        Self::new(Kind::HalfClose(direction))
    }

    /// Ends connections on both sides: the open ones now, new ones after their startup message.
    /// A hit is one connection.
    pub fn cut(how: Cut) -> Self {
        Self::new(Kind::Cut(how))
    }

    /// Resets the client just before a matching statement: **it has not happened**, the client sees an error.
    ///
    /// Nothing of the statement's request is forwarded; an open transaction is rolled back by PostgreSQL.
    pub fn cut_before_forward(statement: impl Into<Statement>) -> Self {
        Self::new(Kind::CutStatement(Moment::BeforeForward, statement.into()))
    }

    /// Forwards a matching statement and resets the client at once: **it may be happening still**.
    ///
    /// The client may retry before the first try has committed. PostgreSQL is left to finish.
    pub fn cut_after_forward(statement: impl Into<Statement>) -> Self {
        Self::new(Kind::CutStatement(Moment::AfterForward, statement.into()))
    }

    /// Forwards a matching statement, swallows the answer and resets the client: **it has happened** (it is
    /// over and, outside an explicit transaction, committed), the client sees an error.
    ///
    /// The answer that is swallowed may itself be an error.
    pub fn cut_after_answer(statement: impl Into<Statement>) -> Self {
        Self::new(Kind::CutStatement(Moment::AfterAnswer, statement.into()))
    }

    /// Removes `NotificationResponse` messages and nothing else. A hit is one notification.
    pub fn drop_notifications() -> Self {
        Self::new(Kind::DropNotifications)
    }

    /// Narrows the fault to some connections.
    pub fn on(self, clients: Clients) -> Self {
        Self { clients, ..self }
    }

    /// Strikes the next `hits_max` times only.
    pub fn next(self, hits_max: u64) -> Self {
        Self { hits_max, ..self }
    }

    /// Strikes with `probability` (0 to 1) each time it could; the same `seed` gives the same dice.
    pub fn with_probability(self, probability: f64, seed: u64) -> Self {
        Self { chance: Some((probability.clamp(0.0, 1.0), seed)), ..self }
    }
}
