//! The ends of jobs as the wake engine sees them: how to look for those that somebody waits for.

use super::{JobId, State, Statements};
use crate::Error;
use crate::pg::connect;
use bugle_wake::{Answer, Ask, Number, Source};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow as _, PgConnection, PgPool, Row as _};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a look may take to be answered.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// Jobs that one look searches for by their ids: some tens of milliseconds' worth. Those behind them are the next look's.
const FRESH_MAX: usize = 1_000;

/// What somebody who waits for a job's end is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Ended(Box<EndRow>),
    /// The queue of this name keeps no history: the end of a job that is done leaves no trace.
    NoHistory(String),
}

/// How a job ended.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct EndRow {
    pub(super) id: JobId,
    state: String,
    pub(super) attempt: i16,
    pub(super) ended_at: DateTime<Utc>,
    pub(super) worker: Option<String>,
    pub(super) result: Option<Json<Box<RawValue>>>,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

impl EndRow {
    pub(super) fn state(&self) -> Result<State, Error> {
        self.state.parse()
    }
}

/// The last row for each queue.
#[derive(sqlx::FromRow)]
struct Tail {
    queue: i32,
    seen: String,
    queue_name: String,
    keeps_history: bool,
}

pub(crate) struct EndSource {
    pool: PgPool,
    statements: Arc<Statements>,
    session: tokio::sync::Mutex<Option<Session>>,
}

/// A connection of the pump's own, with what was seen on it. Another one may lead to another server, or to one that has come back from a crash
/// without its last transactions: what was seen before says nothing there, and every job is looked for by its id once more.
struct Session {
    connection: PgConnection,
    queues: HashMap<i32, Seen>,
}

/// What the last look at a queue's ends saw.
#[derive(Default)]
struct Seen {
    /// Its snapshot: what has ended outside of it is new.
    snapshot: String,
    /// Jobs that were waited for and had not ended in it.
    open: HashSet<JobId>,
}

/// What one look asks.
#[derive(Default)]
struct Question {
    /// The queues, each with its jobs.
    queues: BTreeMap<i32, HashSet<JobId>>,
    /// Jobs that an earlier look knew as open.
    standing: HashSet<JobId>,
    /// Jobs to be found by their ids.
    fresh: HashSet<JobId>,
}

impl Question {
    fn new(asks: &[Ask<JobId>], seen: &HashMap<i32, Seen>) -> Self {
        let mut question = Self::default();
        for ask in asks {
            let (queue, id) = (ask.number.ends().0, ask.want);
            let jobs = question.queues.entry(queue).or_default();
            if seen.get(&queue).is_some_and(|seen| seen.open.contains(&id)) {
                question.standing.insert(id);
            } else if question.fresh.len() < FRESH_MAX || question.fresh.contains(&id) {
                question.fresh.insert(id);
            } else {
                continue;
            }
            jobs.insert(id);
        }
        question
    }

    fn holds(&self, id: JobId) -> bool {
        self.standing.contains(&id) || self.fresh.contains(&id)
    }

    /// For each queue since when; nothing where nobody waits who would need it.
    fn since<'s>(&self, seen: &'s HashMap<i32, Seen>) -> Vec<Option<&'s str>> {
        let since = |(queue, jobs): (&i32, &HashSet<JobId>)| {
            let seen = seen.get(queue)?;
            jobs.iter().any(|id| self.standing.contains(id)).then_some(seen.snapshot.as_str())
        };
        self.queues.iter().map(since).collect()
    }
}

/// What one look found.
#[derive(Default)]
struct Found {
    ends: HashMap<JobId, EndRow>,
    tails: Vec<Tail>,
}

impl EndSource {
    pub(crate) fn new(pool: PgPool, statements: Arc<Statements>) -> Self {
        Self { pool, statements, session: tokio::sync::Mutex::default() }
    }

    /// One look. A session on which it fails is not used again.
    async fn look_at(&self, asks: Vec<Ask<JobId>>) -> Result<Vec<Answer<Told>>, Error> {
        let mut place = self.session.lock().await;
        let mut session = match place.take() {
            Some(session) => session,
            None => Session {
                connection: connect::one(&self.pool.connect_options()).await?,
                queues: HashMap::new(),
            },
        };
        let question = Question::new(&asks, &session.queues);
        let found = session.ask(&self.statements, &question).await?;
        let answers = asks.iter().map(|ask| found.answer(ask, &question)).collect();
        session.note(question, found);
        *place = Some(session);
        Ok(answers)
    }
}

impl Session {
    async fn ask(&mut self, statements: &Statements, question: &Question) -> Result<Found, Error> {
        let rows: Vec<PgRow> = sqlx::query(statements.look_ends())
            .bind(question.queues.keys().copied().collect::<Vec<_>>())
            .bind(question.since(&self.queues))
            .bind(question.standing.iter().map(|id| id.0).collect::<Vec<_>>())
            .bind(question.fresh.iter().map(|id| id.0).collect::<Vec<_>>())
            .fetch_all(&mut self.connection)
            .await
            .map_err(Error::executing)?;
        let mut found = Found::default();
        for row in rows {
            if row.try_get::<Option<i64>, _>("id").map_err(Error::Answer)?.is_none() {
                found.tails.push(Tail::from_row(&row).map_err(Error::Answer)?);
            } else {
                let end = EndRow::from_row(&row).map_err(Error::Answer)?;
                found.ends.insert(end.id, end);
            }
        }
        Ok(found)
    }

    /// Remembers what the next look may rely on.
    fn note(&mut self, mut question: Question, found: Found) {
        for tail in found.tails {
            let mut open = question.queues.remove(&tail.queue).unwrap_or_default();
            open.retain(|id| !found.ends.contains_key(id));
            self.queues.insert(tail.queue, Seen { snapshot: tail.seen, open });
        }
    }
}

impl Found {
    fn answer(&self, ask: &Ask<JobId>, question: &Question) -> Answer<Told> {
        let ended = self.ends.get(&ask.want).map(|end| Told::Ended(Box::new(end.clone())));
        let no_history = || {
            let queue = ask.number.ends().0;
            let tail = self.tails.iter().find(|tail| tail.queue == queue && !tail.keeps_history)?;
            Some(Told::NoHistory(tail.queue_name.clone()))
        };
        let item = ended.or_else(no_history);
        let again = (!question.holds(ask.want)).then_some(Duration::ZERO); // there was no room for it
        Answer { taken: u32::from(item.is_some()), item, full: false, again, dry: false }
    }
}

impl Source for EndSource {
    type Want = JobId;
    type Item = Told;
    type Error = Error;

    async fn look(&self, asks: Vec<Ask<JobId>>) -> Result<Vec<Answer<Told>>, Error> {
        let answers = tokio::time::timeout(LOOK_WITHIN, self.look_at(asks)).await;
        answers.unwrap_or_else(|_| Err(Error::timed_out()))
    }

    fn is_away(error: &Error) -> bool {
        error.is_away()
    }

    /// Nothing was claimed: whoever waits for the same job next finds the same end.
    async fn hand_back(&self, _: Number, _: Told) {}
}
