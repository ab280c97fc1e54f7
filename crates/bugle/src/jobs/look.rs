//! One look: claims for everybody who asks, with one statement.

use super::hints::{Hint, Seen};
use super::{Claimed, JobId, Look, Receipt, Statements};
use crate::{Error, crash};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::types::Json;
use sqlx::{FromRow as _, PgConnection, Row as _};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What one consumer asks of one queue.
pub(super) struct Ask {
    pub(super) queue: i32,
    pub(super) worker: Arc<str>,
    pub(super) most: i32,
    pub(super) lease: PgInterval,
    /// Take back ended leases even if the look is full.
    pub(super) sweep: bool,
    pub(super) hint: Hint,
}

/// The last row for each ask.
#[derive(sqlx::FromRow)]
struct Tail {
    got: i32,
    again_us: Option<i64>,
    claimed_at: DateTime<Utc>,
    next_due: Option<DateTime<Utc>>,
    next_expiry: Option<DateTime<Utc>>,
}

#[derive(sqlx::FromRow)]
struct Body {
    lane: i16,
    x: i64,
    id: i64,
    attempt: i16,
    max_attempts: i16,
    enqueued_at: DateTime<Utc>,
    due_at: DateTime<Utc>,
    kind: String,
    key: Option<String>,
    extra: Option<Json<Box<RawValue>>>,
    payload: Json<Box<RawValue>>,
    until: DateTime<Utc>,
}

/// Looks for all asks: those of a queue stand together, and the queues ascend. An ask without a look was not served: those before it
/// emptied the queue.
///
/// One round trip unless the bodies are large: those travel after the claim has committed, so that a slow client never holds the
/// queue's lock.
pub(super) async fn look(
    connection: &mut PgConnection,
    statements: &Statements,
    asks: &[Ask],
) -> Result<Vec<Option<Look>>, Error> {
    let tokens: Vec<i64> = asks.iter().map(|_| rand::random_range(1..i64::MAX)).collect();
    crash::point("claim.before_send");
    let rows: Vec<PgRow> = sqlx::query(statements.look())
        .bind(&tokens)
        .bind(asks.iter().map(|a| a.queue).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| &*a.worker).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| a.most).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| a.lease).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| a.sweep).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| from(a.hint.due_from)).collect::<Vec<_>>())
        .bind(asks.iter().map(|a| from(a.hint.until_from)).collect::<Vec<_>>())
        .fetch_all(&mut *connection)
        .await
        .map_err(Error::executing)?;
    crash::point("claim.after_commit");
    read(connection, statements, asks, &tokens, rows).await
}

/// The same for a single ask that finds nothing or one job, faster, on a connection with pinned plans. `None`: there is more to be done, and
/// nothing has happened.
pub(super) async fn quick_look(
    connection: &mut PgConnection,
    statements: &Statements,
    ask: &Ask,
) -> Result<Option<Look>, Error> {
    let token = rand::random_range(1..i64::MAX);
    crash::point("claim.before_send");
    let row: Option<PgRow> = sqlx::query(statements.quick_look())
        .bind(token)
        .bind(ask.queue)
        .bind(&*ask.worker)
        .bind(ask.lease)
        .bind(from(ask.hint.due_from))
        .bind(from(ask.hint.until_from))
        .fetch_optional(&mut *connection)
        .await
        .map_err(Error::executing)?;
    crash::point("claim.after_commit");
    let Some(row) = row else { return Ok(None) };
    let tail = Tail::from_row(&row).map_err(Error::Answer)?;
    let job = match tail.got {
        0 => None,
        _ => Some(Body::from_row(&row).map_err(Error::Answer)?.claimed(token)),
    };
    crash::point("claim.after_bodies");
    Ok(Some(tail.look(token, ask.most, job.into_iter().collect())))
}

/// Reads what a look answered, and fetches the bodies that it left behind.
async fn read(
    connection: &mut PgConnection,
    statements: &Statements,
    asks: &[Ask],
    tokens: &[i64],
    rows: Vec<PgRow>,
) -> Result<Vec<Option<Look>>, Error> {
    let mut looks: Vec<Option<Look>> = asks.iter().map(|_| None).collect();
    let mut left_behind = BTreeSet::new();
    let mut jobs = Vec::new();
    for row in rows {
        let place = place(row.try_get("ask").map_err(Error::Answer)?)?;
        if row.try_get::<Option<i64>, _>("id").map_err(Error::Answer)?.is_none() {
            let tail = Tail::from_row(&row).map_err(Error::Answer)?;
            looks[place] = Some(tail.look(tokens[place], asks[place].most, std::mem::take(&mut jobs)));
        } else if row.try_get("inlined").map_err(Error::Answer)? {
            let body = Body::from_row(&row).map_err(Error::Answer)?;
            jobs.push(body.claimed(tokens[place]));
        } else {
            left_behind.insert(place);
        }
    }
    for place in left_behind {
        let bodies: Vec<Body> = sqlx::query_as(statements.bodies())
            .bind(tokens[place])
            .fetch_all(&mut *connection)
            .await
            .map_err(Error::executing)?;
        if let Some(look) = &mut looks[place] {
            look.jobs = bodies.into_iter().map(|body| body.claimed(tokens[place])).collect();
        }
    }
    crash::point("claim.after_bodies");
    Ok(looks)
}

/// The beginning of time, unless something is known. (The driver cannot say `-infinity`.)
fn from(known: Option<DateTime<Utc>>) -> DateTime<Utc> {
    known.unwrap_or(DateTime::UNIX_EPOCH)
}

/// SQL counts from 1.
fn place(ask: i32) -> Result<usize, Error> {
    usize::try_from(ask - 1).map_err(|_| Error::Bug(format!("a look answered ask number {ask}")))
}

impl Tail {
    fn look(&self, token: i64, most: i32, jobs: Vec<Claimed>) -> Look {
        Look {
            token,
            jobs,
            full: self.got >= most,
            look_again_in: self.again_us.map(|us| Duration::from_micros(us.unsigned_abs())),
            claimed_at: self.claimed_at,
            seen: (self.got >= 0).then_some(Seen { next_due: self.next_due, next_expiry: self.next_expiry }),
        }
    }
}

impl Body {
    fn claimed(self, token: i64) -> Claimed {
        Claimed {
            id: JobId(self.id),
            kind: self.kind,
            payload: self.payload.0,
            attempt: self.attempt.unsigned_abs(),
            max_attempts: self.max_attempts.unsigned_abs(),
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            key: self.key,
            extra: self.extra.map(|extra| extra.0),
            lease_until: self.until,
            receipt: Receipt { lane: self.lane, x: self.x, id: self.id, token },
            given: None,
        }
    }
}
