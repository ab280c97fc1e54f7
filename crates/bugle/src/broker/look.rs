//! One look: claims for everybody who waits, with one statement, or two where thousands wait.

use super::pop::Want;
use super::sight::{Sight, Wish};
use super::{Delivered, PartitionId, Statements};
use crate::{Error, crash};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// So many asks of one party go with a statement. Each is some hundred bytes that PostgreSQL has to read, and most of those who wait will get nothing:
/// behind the first who wait for any partition, the others are the next look's, and of those who wait for one of their own only the ones whose
/// partition has something are asked for.
const ASKS_MAX: usize = 200;

/// What one consumer asks.
#[derive(Debug, Clone)]
struct Ask {
    /// Its place among all who wait.
    place: usize,
    wish: Wish,
    most: i32,
    token: Uuid,
    lease: Option<PgInterval>,
    auto_ack: bool,
}

/// Those who wait for one group of one queue, by their places among all, in the order of registration.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) queue: i32,
    pub(super) group: i32,
    /// Those who take any partition.
    pub(super) free: Vec<usize>,
    /// Those who wait for one, with it.
    pub(super) bound: Vec<(i32, usize)>,
}

/// What a look brought for one of those who wait.
#[derive(Debug)]
pub(super) struct Found {
    /// Its place among all.
    pub(super) place: usize,
    pub(super) token: Uuid,
    pub(super) messages: Vec<Delivered>,
}

/// What a look brought.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) found: Vec<Found>,
    /// The groups that are gone.
    pub(super) gone: Vec<i32>,
    /// The tail waits to be numbered.
    pub(super) tail_waits: bool,
    /// How many it took.
    pub(super) statements: u64,
    /// Something failed after the first claims: the session is not to be used again.
    pub(super) is_half: bool,
}

#[derive(sqlx::FromRow)]
struct Row {
    kind: String,
    sight: Option<i32>,
    ask: Option<i32>,
    part: Option<i32>,
    again_us: Option<i64>,
    partition: Option<String>,
    tries: Option<i32>,
    until: Option<DateTime<Utc>>,
    seq: Option<i64>,
    n: Option<i64>,
    at: Option<DateTime<Utc>>,
    id: Option<Uuid>,
    trace: Option<Uuid>,
    key: Option<String>,
    sub: Option<String>,
    payload: Option<String>,
    seen: Option<String>,
}

/// Everything that a node knows, by group.
pub(super) type Sights = HashMap<i32, Sight>;

/// Looks for all parties, which ascend by group.
pub(super) async fn look(
    connection: &mut PgConnection,
    statements: &Statements,
    sights: &mut Sights,
    parties: &[Party],
    asks: &[bugle_wake::Ask<Want>],
) -> Result<Looked, Error> {
    let mut looked = Looked { statements: 1, ..Looked::default() };
    let first: Vec<Asked> = parties
        .iter()
        .map(|party| Asked::new(party, asks, party.first(sights.entry(party.group).or_default())))
        .collect();
    ask(connection, statements, sights, &first, &mut looked).await?;
    // Those who were left out because nothing was known of their partitions, and something is now.
    let second: Vec<Asked> = first
        .iter()
        .filter(|asked| !looked.gone.contains(&asked.party.group))
        .filter_map(|asked| {
            let more = asked.party.second(sights.get(&asked.party.group)?, &asked.asks);
            (!more.is_empty()).then(|| Asked::new(asked.party, asks, more))
        })
        .collect();
    looked.statements += u64::from(!second.is_empty());
    if !second.is_empty()
        && let Err(error) = ask(connection, statements, sights, &second, &mut looked).await
    {
        // The first has claimed already: those are to be served.
        tracing::warn!(%error, "half of a look failed, trying again");
        looked.is_half = true;
    }
    Ok(looked)
}

impl Party {
    /// Those who are asked for at once: of those who wait for a partition, the first for each, all if they are few.
    fn first(&self, sight: &Sight) -> Vec<usize> {
        let is_few = self.bound.len() <= ASKS_MAX;
        let bound = self.bound.iter().filter(|(part, _)| is_few || sight.is_candidate(*part));
        let free = self.free.iter().take(ASKS_MAX).copied();
        free.chain(first_of_each(bound)).collect()
    }

    /// Those who were not, and whose partition has something.
    fn second(&self, sight: &Sight, asked: &[Ask]) -> Vec<usize> {
        if self.bound.len() <= ASKS_MAX || !sight.has_candidates() {
            return Vec::new();
        }
        let bound = self.bound.iter().filter(|(part, _)| sight.is_candidate(*part));
        first_of_each(bound).into_iter().filter(|place| asked.iter().all(|ask| ask.place != *place)).collect()
    }

    /// How soon those who got nothing are to be looked for again, each by its place.
    pub(super) fn again(&self, sight: &Sight, now: Instant, again: &mut [Option<Duration>]) {
        if let Some(any) = sight.again(Wish { part: None, parts: 1 }, now) {
            self.free.iter().for_each(|place| again[*place] = Some(any));
        }
        let known = sight.known();
        if known.len() < self.bound.len() {
            // Few partitions and many who wait: to search those for each of these is the shorter way.
            for part in known {
                let wish = Wish { part: Some(part), parts: 1 };
                let time = sight.again(wish, now);
                self.bound
                    .iter()
                    .filter(|(bound, _)| *bound == part)
                    .for_each(|(_, place)| again[*place] = time);
            }
        } else {
            for (part, place) in &self.bound {
                again[*place] = sight.again(Wish { part: Some(*part), parts: 1 }, now);
            }
        }
    }
}

/// A partition has one lease: of those who wait for it, the first.
fn first_of_each<'a>(bound: impl Iterator<Item = &'a (i32, usize)>) -> Vec<usize> {
    let mut parts = HashSet::new();
    bound.filter(|(part, _)| parts.insert(*part)).map(|(_, place)| *place).take(ASKS_MAX).collect()
}

/// A party, and who of it is asked for.
struct Asked<'a> {
    party: &'a Party,
    asks: Vec<Ask>,
}

impl<'a> Asked<'a> {
    fn new(party: &'a Party, all: &[bugle_wake::Ask<Want>], places: Vec<usize>) -> Self {
        let ask = |place: usize| {
            let bugle_wake::Ask { most, want, .. } = &all[place];
            Ask {
                place,
                wish: want.wish,
                most: i32::try_from(*most).unwrap_or(i32::MAX),
                token: Uuid::now_v7(),
                lease: want.who.lease(),
                auto_ack: want.who.pop.auto_ack,
            }
        };
        Self { party, asks: places.into_iter().map(ask).collect() }
    }
}

/// Sends one statement.
async fn ask(
    connection: &mut PgConnection,
    statements: &Statements,
    sights: &mut Sights,
    parties: &[Asked<'_>],
    looked: &mut Looked,
) -> Result<(), Error> {
    let begun = Instant::now();
    let (mut seen, mut to_try) = (Vec::new(), Vec::new());
    for Asked { party, asks } in parties {
        let sight = sights.entry(party.group).or_default();
        seen.push(sight.begin(begun).map(str::to_owned));
        let wishes: Vec<Wish> = asks.iter().map(|ask| ask.wish).collect();
        to_try.push(array(&sight.to_try(&wishes)));
    }
    let asks = || parties.iter().flat_map(|asked| &asked.asks);
    crash::point("pop.before_send");
    let rows: Vec<Row> = sqlx::query_as(statements.look_messages())
        .bind(parties.iter().map(|asked| asked.party.queue).collect::<Vec<_>>())
        .bind(parties.iter().map(|asked| asked.party.group).collect::<Vec<_>>())
        .bind(seen)
        .bind(to_try)
        .bind(
            parties
                .iter()
                .map(|asked| i32::try_from(asked.asks.len()).unwrap_or(i32::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(asks().map(|ask| ask.wish.part).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.most).collect::<Vec<_>>())
        .bind(asks().map(|ask| i32::try_from(ask.wish.parts).unwrap_or(i32::MAX)).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.token).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.lease).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.auto_ack).collect::<Vec<_>>())
        .fetch_all(connection)
        .await
        .map_err(Error::executing)?;
    if rows.iter().any(|row| row.kind == "m") {
        crash::point("pop.after_commit");
    }
    read(sights, parties, rows, looked)
}

/// An array as PostgreSQL writes it: arrays of arrays would have to be of one length.
fn array(parts: &[i32]) -> String {
    let parts: Vec<String> = parts.iter().map(i32::to_string).collect();
    format!("{{{}}}", parts.join(","))
}

fn read(
    sights: &mut Sights,
    parties: &[Asked<'_>],
    rows: Vec<Row>,
    looked: &mut Looked,
) -> Result<(), Error> {
    let now = Instant::now();
    let asks: Vec<&Ask> = parties.iter().flat_map(|asked| &asked.asks).collect();
    let mut found: BTreeMap<usize, Vec<Delivered>> = BTreeMap::new();
    let (mut names, mut fates) = (HashMap::new(), Vec::new());
    for row in rows {
        let Some(place) = row.sight.and_then(place) else {
            looked.tail_waits |= row.kind == "t";
            continue;
        };
        let group = parties.get(place).ok_or_else(|| bug("a sight"))?.party.group;
        let sight = sights.entry(group).or_default();
        let again = row.again_us.map(|us| now + Duration::from_micros(us.unsigned_abs()));
        match (row.kind.as_str(), row.part) {
            ("g", _) => looked.gone.push(group),
            ("s", _) => row.seen.into_iter().for_each(|seen| sight.saw(seen)),
            ("n", Some(part)) => sight.note_news(part, again),
            ("c", Some(part)) => fates.push((group, part, again)),
            ("m", Some(_)) => {
                let ask = row.ask.and_then(self::place).filter(|ask| *ask < asks.len());
                let messages = found.entry(ask.ok_or_else(|| bug("an ask"))?).or_default();
                messages.push(row.delivered(&mut names)?);
            }
            (kind, _) => return Err(bug(kind)),
        }
    }
    // After all the news: what was tried is known better.
    for (group, part, again) in fates {
        sights.entry(group).or_default().note_fate(part, names.contains_key(&part), again, now);
    }
    for group in &looked.gone {
        sights.remove(group);
    }
    for (ask, mut messages) in found {
        messages.sort_by_key(|message| (message.partition, message.seq));
        looked.found.push(Found { place: asks[ask].place, token: asks[ask].token, messages });
    }
    Ok(())
}

/// SQL counts from 1.
fn place(number: i32) -> Option<usize> {
    usize::try_from(number - 1).ok()
}

fn bug(what: &str) -> Error {
    Error::Bug(format!("a look for messages answered with {what} that was not asked for"))
}

impl Row {
    fn delivered(self, names: &mut HashMap<i32, Arc<str>>) -> Result<Delivered, Error> {
        let whole = || -> Option<Delivered> {
            let part = self.part?;
            let name = self.partition?;
            Some(Delivered {
                id: self.id?,
                key: self.key,
                trace: self.trace,
                sub: self.sub,
                at: self.at?,
                partition: PartitionId(part),
                partition_name: names.entry(part).or_insert_with(|| name.into()).clone(),
                seq: self.seq?,
                n: self.n?,
                tries: self.tries?,
                until: self.until,
                payload: self.payload?,
            })
        };
        whole().ok_or_else(|| bug("half a message"))
    }
}
