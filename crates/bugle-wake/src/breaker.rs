//! The node's one breaker: while the database is away one probe a second asks for it, and nobody else does.
//!
//! Without it every loop would try for itself: looks, settlements, renewals, the listener, and each connection that a pool is asked for, which
//! tries again and again by itself. A trip is a suspicion, and costs one connection when it is wrong: whoever meets a broken connection may say so.

use crate::counters::Counters;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// From the begin of one probe to the begin of the next.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The first probe waits for a part of this: the nodes of a fleet lose their connections together, and would come back together.
const SPREAD: Duration = Duration::from_millis(100);

/// Is the database away? Shared by all that a node does by itself. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Breaker(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    /// Since when the database may be away.
    open: Option<Instant>,
    /// The listener's session lives: whatever else broke, the server is there.
    witnessed: bool,
    /// How often it was open.
    outages: u64,
    /// The node has stopped: nobody probes any more, and nobody is held up.
    ended: bool,
}

impl State {
    fn is_open(&self) -> bool {
        self.open.is_some() && !self.ended
    }
}

impl Breaker {
    /// The database may be away: nobody asks for it any more until a probe has found it. While the listener's session lives it is not: connections
    /// that somebody ends one by one are no reason to hold everybody up.
    pub fn trip(&self) {
        self.0.send_if_modified(|state| {
            if state.open.is_some() || state.witnessed {
                return false;
            }
            state.open = Some(Instant::now());
            state.outages += 1;
            true
        });
    }

    /// How often it may have been away: a connection that was made before the last time is most likely broken.
    #[must_use]
    pub fn outages(&self) -> u64 {
        self.0.borrow().outages
    }

    /// How long the database has been away; `None`: it is there, as far as is known.
    #[must_use]
    pub fn away_for(&self) -> Option<Duration> {
        let state = self.0.borrow();
        state.open.filter(|_| state.is_open()).map(|since| since.elapsed())
    }

    /// Returns when the database is there, as far as is known: at once, nearly always.
    pub async fn closed(&self) {
        if self.0.borrow().is_open() {
            self.until(|state| !state.is_open()).await;
        }
    }

    async fn opened(&self) {
        self.until(State::is_open).await;
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        // Whoever waits holds the sender: it cannot fail.
        let _ = self.0.subscribe().wait_for(|state| condition(state)).await;
    }

    /// A connection of the pool, within the time that the pool allows. While the database is away it waits for the probe: a pool would try by
    /// itself, many times a second.
    pub async fn acquire(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let acquired = async {
            loop {
                self.closed().await;
                tokio::select! {
                    biased;
                    acquired = pool.acquire() => return acquired,
                    () = self.opened() => {} // nothing was sent
                }
            }
        };
        let acquired = tokio::time::timeout(pool.options().get_acquire_timeout(), acquired).await;
        let acquired = acquired.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        if acquired.as_ref().is_err_and(is_away) {
            self.trip();
        }
        acquired
    }

    /// The listener's session lives, or does not any more.
    pub(crate) fn witness(&self, lives: bool) {
        self.0.send_if_modified(|state| {
            state.witnessed = lives;
            false // nobody waits for that
        });
    }

    /// The node stops.
    pub(crate) fn end(&self) {
        self.0.send_modify(|state| state.ended = true);
    }

    fn close(&self) {
        let mut was_open = None;
        self.0.send_modify(|state| was_open = state.open.take());
        if let Some(since) = was_open {
            tracing::debug!(after = ?since.elapsed(), "the database is there");
        }
    }
}

/// Probes for as long as the breaker is open, for ever.
pub(crate) async fn watch(
    breaker: Breaker,
    database: PgConnectOptions,
    within: Duration,
    counters: Arc<Counters>,
) {
    loop {
        breaker.opened().await;
        tokio::time::sleep(SPREAD.mul_f64(rand::random_range(0.0..1.0))).await;
        loop {
            let begun = Instant::now();
            counters.probes.one();
            if is_there(&database, within).await {
                break breaker.close();
            }
            tokio::time::sleep_until(begun + PROBE_EVERY).await;
        }
    }
}

/// One attempt to connect. A server that refuses for a reason of its own, such as too many sessions, is there: what is connected can go on.
async fn is_there(database: &PgConnectOptions, within: Duration) -> bool {
    let asked = async {
        let mut connection = PgConnection::connect_with(database).await?;
        sqlx::raw_sql(include_str!("sql/is_there.sql")).execute(&mut connection).await?;
        connection.close().await
    };
    match tokio::time::timeout(within, asked).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) if !is_away(&error) => true,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the database is away, asking again in a second");
            false
        }
        Err(_) => {
            tracing::warn!(?within, "the database does not answer, asking again");
            false
        }
    }
}

/// May it mean that the server is not there, starting or stopping, rather than that it said no? A session that somebody ended (57P01, 57P02) tells
/// nothing of the server: whoever connects anew learns more.
#[must_use]
pub fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(answer) => {
            answer.code().is_some_and(|code| code == "57P03" || code.starts_with("08"))
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

#[cfg(all(test, not(feature = "explore")))]
#[allow(clippy::unwrap_used)] // clippy does not see that it is a test
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn everybody_waits_from_the_first_trip_to_the_answer_of_a_probe() {
        let breaker = Breaker::default();
        assert!(breaker.closed().now_or_never().is_some() && breaker.opened().now_or_never().is_none());
        breaker.trip();
        breaker.trip();
        assert!(breaker.closed().now_or_never().is_none() && breaker.opened().now_or_never().is_some());
        assert_eq!(breaker.outages(), 1, "it was open already");
        assert!(breaker.away_for().is_some());
        breaker.close();
        assert!(breaker.closed().now_or_never().is_some() && breaker.away_for().is_none());
    }

    #[test]
    fn a_session_that_lives_is_a_witness() {
        let breaker = Breaker::default();
        breaker.witness(true);
        breaker.trip();
        assert!(breaker.closed().now_or_never().is_some());
        breaker.witness(false);
        breaker.trip();
        assert!(breaker.closed().now_or_never().is_none());
    }

    #[test]
    fn a_node_that_stops_holds_nobody_up() {
        let breaker = Breaker::default();
        breaker.trip();
        breaker.end();
        assert!(breaker.closed().now_or_never().is_some() && breaker.away_for().is_none());
        breaker.trip();
        assert!(breaker.closed().now_or_never().is_some(), "nobody would close it");
    }

    #[test]
    fn a_server_that_says_no_is_there() {
        let io = sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into());
        assert!(is_away(&io) && is_away(&sqlx::Error::PoolTimedOut));
        assert!(!is_away(&sqlx::Error::PoolClosed) && !is_away(&sqlx::Error::RowNotFound));
    }
}
