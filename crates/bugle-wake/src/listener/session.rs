//! The listener's connection: the one session of a node that LISTENs and holds its bells and marks. It runs autocommit statements only and
//! never produces: its own locks would not refuse it. Any error ends it, and every lock with it.

use crate::mode::Setting;
use crate::number::{Bucket, Number};
use crate::seat::Seated;
use crate::statements::Statements;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};
use std::collections::HashMap;
use std::time::Duration;

/// How often to ask whether two clients are served by one session.
const POOLER_PROBES: usize = 5;

pub(crate) struct Session {
    listener: PgListener,
    statements: Statements,
    backend: i32,
    answer_within: Duration,
}

/// What a heartbeat says.
#[derive(sqlx::FromRow)]
pub(crate) struct Pulse {
    backend: i32,
    pub(crate) control: i64,
    pub(crate) notify_usage: f64,
}

/// A notification, or none: the connection is gone.
pub(crate) enum Heard {
    Payload(String),
    Lost,
}

impl Session {
    /// Connects and LISTENs: when it returns, every ring from now on will be heard. `None`: a pooler deals out server sessions by the
    /// transaction, and LISTEN and locks are worthless. Nothing is done to such a session that would stay behind for others.
    pub(crate) async fn open(
        connect: &PgConnectOptions,
        statements: &Statements,
        node: &str,
        answer_within: Duration,
    ) -> Result<Option<Self>, sqlx::Error> {
        // A pool of one: the driver's listener takes its connection from a pool, and would silently take another if this one broke.
        // It never gets that far: whatever breaks ends the whole session.
        let named = connect.clone().application_name(&application_name(node, false));
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(answer_within * 2)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(named)
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.ignore_pool_close_event(true);
        let backend = within(answer_within, backend(statements, &mut listener)).await?;
        let mut session = Self { listener, statements: statements.clone(), backend, answer_within };
        if within(answer_within * 2, session.is_pooled(connect)).await? {
            return Ok(None);
        }
        within(answer_within, session.begin(node)).await?;
        Ok(Some(session))
    }

    /// Do two clients at this address meet in one server session, or does one wander between two?
    async fn is_pooled(&mut self, connect: &PgConnectOptions) -> Result<bool, sqlx::Error> {
        let mut other = PgConnection::connect_with(connect).await?;
        let mut pooled = false;
        for _ in 0..POOLER_PROBES {
            // A pooler gives the next client the session that came back last: ours. A third client's may come back in between, so it is
            // asked several times; and while the other one holds a session, ours must still be the same.
            let before = backend(&self.statements, &mut self.listener).await?;
            let mut held = other.begin().await?;
            let theirs = backend(&self.statements, &mut *held).await?;
            let after = backend(&self.statements, &mut self.listener).await?;
            held.rollback().await?;
            pooled |= theirs == before || [before, after].iter().any(|ours| *ours != self.backend);
        }
        other.close().await?;
        Ok(pooled)
    }

    async fn begin(&mut self, node: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(self.statements.end_out_of_reach()).execute(&mut self.listener).await?;
        end_ghosts(&self.statements, node, &mut self.listener).await?;
        let channel: String =
            sqlx::query_scalar(self.statements.channel()).fetch_one(&mut self.listener).await?;
        self.listener.listen(&channel).await
    }

    /// Waits for the next notification. May be cancelled.
    pub(crate) async fn hear(&mut self) -> Heard {
        loop {
            match self.listener.try_recv().await {
                Ok(Some(call)) if call.process_id() == self.backend.unsigned_abs() => {} // its own handover
                Ok(Some(call)) => return Heard::Payload(call.payload().to_owned()),
                Ok(None) => return Heard::Lost,
                Err(error) => {
                    tracing::debug!(%error, "listener broke");
                    return Heard::Lost;
                }
            }
        }
    }

    /// The notifications that came while a statement was answered.
    pub(crate) fn heard_meanwhile(&mut self) -> impl Iterator<Item = String> {
        let own = self.backend.unsigned_abs();
        std::iter::from_fn(|| self.listener.next_buffered())
            .filter(move |call| call.process_id() != own)
            .map(|call| call.payload().to_owned())
    }

    pub(crate) async fn sit(
        &mut self,
        buckets: &[Bucket],
        marked: &[bool],
    ) -> Result<Vec<Seated>, sqlx::Error> {
        let query = sqlx::query_scalar(self.statements.sit()).bind(numbers(buckets)).bind(marked);
        let seats: Vec<String> = within(self.answer_within, query.fetch_one(&mut self.listener)).await?;
        let seated = seats.iter().map(|seat| match seat.as_str() {
            "bell" => Seated::Bell,
            "reserve" => Seated::Reserve,
            _ => Seated::Shallow,
        });
        Ok(seated.collect())
    }

    pub(crate) async fn leave(&mut self, bells: &[Bucket], marks: &[Bucket]) -> Result<i32, sqlx::Error> {
        let query = sqlx::query_scalar(self.statements.leave()).bind(numbers(bells)).bind(numbers(marks));
        within(self.answer_within, query.fetch_one(&mut self.listener)).await
    }

    pub(crate) async fn ring_if_marked(&mut self, buckets: &[Bucket]) -> Result<i32, sqlx::Error> {
        let query = sqlx::query_scalar(self.statements.ring_if_marked()).bind(numbers(buckets));
        within(self.answer_within, query.fetch_one(&mut self.listener)).await
    }

    /// Asks whether the session lives. A pooler that was not noticed at first shows here as well: another backend answers.
    pub(crate) async fn heartbeat(&mut self) -> Result<Pulse, sqlx::Error> {
        let query = sqlx::query_as(self.statements.heartbeat());
        let pulse: Pulse = within(self.answer_within, query.fetch_one(&mut self.listener)).await?;
        if pulse.backend == self.backend {
            return Ok(pulse);
        }
        Err(sqlx::Error::Protocol("another server session answers than the one that listens".to_owned()))
    }

    pub(crate) async fn modes(&mut self) -> Result<HashMap<Number, Setting>, sqlx::Error> {
        within(self.answer_within, read_modes(&self.statements, &mut self.listener)).await
    }

    /// Shows the node's state where everybody can see it, without a table: in the list of sessions.
    pub(crate) async fn show(&mut self, node: &str, alert: bool) -> Result<(), sqlx::Error> {
        let query = sqlx::query(self.statements.show()).bind(application_name(node, alert));
        within(self.answer_within, query.execute(&mut self.listener)).await.map(drop)
    }
}

/// Rings for those that are marked, on a connection made for it: for a node that has no session and will have none.
pub(crate) async fn ring_owed(
    connect: &PgConnectOptions,
    statements: &Statements,
    node: &str,
    buckets: &[Bucket],
    answer_within: Duration,
) -> Result<i32, sqlx::Error> {
    let named = connect.clone().application_name(&application_name(node, false));
    let ring = async {
        let mut session = PgConnection::connect_with(&named).await?;
        end_ghosts(statements, node, &mut session).await?;
        let query = sqlx::query_scalar(statements.ring_if_marked()).bind(numbers(buckets));
        let rung = query.fetch_one(&mut session).await?;
        session.close().await?;
        Ok(rung)
    };
    within(answer_within, ring).await
}

/// An earlier session of the node that was given up while it hung would go on holding its locks, and end without a handover.
async fn end_ghosts(
    statements: &Statements,
    node: &str,
    on: impl sqlx::PgExecutor<'_>,
) -> Result<(), sqlx::Error> {
    let names = vec![application_name(node, false), application_name(node, true)];
    sqlx::query(statements.end_ghosts()).bind(names).execute(on).await.map(drop)
}

/// The version of control.
pub(crate) async fn read_control(
    statements: &Statements,
    executor: impl sqlx::PgExecutor<'_>,
) -> Result<i64, sqlx::Error> {
    let pulse: Pulse = sqlx::query_as(statements.heartbeat()).fetch_one(executor).await?;
    Ok(pulse.control)
}

/// The rows of the queues that are not woken in the default way.
pub(crate) async fn read_modes(
    statements: &Statements,
    executor: impl sqlx::PgExecutor<'_>,
) -> Result<HashMap<Number, Setting>, sqlx::Error> {
    let rows: Vec<(i32, String, Option<i64>)> =
        sqlx::query_as(statements.modes()).fetch_all(executor).await?;
    let setting = |(number, mode, poll): (i32, String, Option<i64>)| {
        // A mode of a newer version: the default is safe.
        let mode = mode.parse().unwrap_or_default();
        let poll = poll.map(|ms| Duration::from_millis(ms.unsigned_abs().max(1)));
        (Number(number), Setting { mode, poll })
    };
    Ok(rows.into_iter().map(setting).collect())
}

async fn backend(statements: &Statements, on: impl sqlx::PgExecutor<'_>) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar(statements.backend()).fetch_one(on).await
}

/// PostgreSQL cuts names at 63 bytes. What makes the node's unique is its end: that is kept.
fn application_name(node: &str, alert: bool) -> String {
    const KEPT: usize = 40;
    let tail = &node[node.ceil_char_boundary(node.len().saturating_sub(KEPT))..];
    format!("bugle listener{} {tail}", if alert { " (alert)" } else { "" })
}

fn numbers(buckets: &[Bucket]) -> Vec<i32> {
    buckets.iter().map(|b| b.0).collect()
}

/// A connection that swallows everything is as good as none.
async fn within<T>(
    time: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(time, answer).await.unwrap_or_else(|_| {
        Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "no answer on the listener's connection",
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_end_within_what_postgresql_keeps() {
        let node = format!("{}:4711:0123abcd", "é".repeat(100));
        for alert in [false, true] {
            let name = application_name(&node, alert);
            assert!(name.len() <= 63 && name.ends_with(":4711:0123abcd"), "{name}");
        }
        assert_eq!(application_name("vm:1:2", false), "bugle listener vm:1:2");
    }
}
