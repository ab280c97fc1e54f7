//! Bugle's wake engine: work that appears or becomes due reaches whoever waits for it, and an idle fleet leaves the database alone.
//!
//! It knows buckets and instants, not jobs. Whoever waits registers an [`Intention`]; a [`Pump`] serves all intentions of one kind of
//! work, its [`Source`], with one look at a time; a [`Node`] holds the process's listener and its seats. The rules by which no wake-up is
//! lost are in `docs/wake.md`; the code names them by their numbers.
//!
//! ```text
//! wake sources                    pump (one per kind of work)                 who waits
//!  ring (NOTIFY) ─ listener ─┐     asleep → look → hand out → asleep          intention: "up to 10"
//!  local push ───────────────┼─►        ▲               │                     intention: "1"
//!  timer: next due ──────────┤          └─ linger, alert┘                     …
//!  heartbeat ────────────────┘     one look serves all intentions
//! ```

mod alert;
mod breaker;
mod counters;
#[cfg(all(test, feature = "explore"))]
mod explore;
mod intention;
mod listener;
mod mode;
mod node;
mod number;
mod options;
mod pace;
mod path;
mod pump;
mod queue;
mod recent;
mod registry;
mod room;
mod round;
mod seat;
mod seats;
mod shadow;
mod statements;
mod supervise;
mod sync;
mod wake;

pub use alert::Policy;
pub use breaker::{Breaker, is_away};
pub use counters::{Count, Counters, Distribution, Gauge, Histogram, Raised, Why};
pub use intention::Intention;
pub use mode::{Mode, UnknownMode};
pub use node::{Listens, Node, Place, Status};
pub use number::{BUCKETS, Bucket, Number};
pub use options::{Options, Times};
pub use path::{Given, Path};
pub use pump::{Pump, Source};
pub use recent::Lately;
pub use registry::TooMany;
pub use room::Room;
pub use round::{Answer, Ask};
pub use seats::Holding;
pub use statements::Statements;
