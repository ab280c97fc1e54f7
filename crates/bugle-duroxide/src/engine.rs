//! Turns and work as the wake engine sees them. Dispatchers are intentions; one look claims for all who want the same.

use crate::config::LongPollConfig;
use crate::store::{Store, Tail};
use crate::turns::{self, Turn};
use crate::work::{self, Claimed};
use bugle_wake::{Answer, Ask, Node, Number, Place, Pump, Source};
use sqlx::postgres::PgConnectOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The number of turns, as the table `queue` has it.
pub(crate) const TURNS: Number = Number(1);
/// The number of work.
pub(crate) const WORK: Number = Number(2);

/// How long a look may take to be answered: a connection that swallows everything holds up its kind of work for as long.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How soon to look again when somebody else had the rows: doubled each time in a row, up to the second.
const PASSED_OVER: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(64));
/// Milliseconds to wait after each try to give something back that failed. After the last one the lease's end does it.
const HAND_BACK_PAUSES: [u64; 4] = [100, 500, 2_000, 5_000];

pub(crate) struct Engine {
    pub(crate) node: Node,
    pub(crate) turns: Pump<TurnSource>,
    pub(crate) work: Pump<WorkSource>,
}

impl Engine {
    pub(crate) fn start(
        store: &Arc<Store>,
        config: &LongPollConfig,
        listener: PgConnectOptions,
        statements: bugle_wake::Statements,
    ) -> Self {
        let place = Place { pool: store.pool.clone(), listener, statements, node: store.node.clone() };
        let node = Node::start(config.wake_options(), place);
        let sight = || Sight { grace: config.timer_grace_period, passed_over: AtomicU32::new(0) };
        let turns = node.pump(TurnSource { store: store.clone(), sight: sight() });
        let work = node.pump(WorkSource { store: store.clone(), sight: sight() });
        Self { node, turns, work }
    }
}

/// What a source remembers between its looks.
pub(crate) struct Sight {
    grace: Duration,
    /// Looks in a row that were passed over.
    passed_over: AtomicU32,
}

impl Sight {
    /// When to look again. The answer was on its way for at least half of the time since `asked`: the sleep is that much shorter, but never
    /// by more than the grace. Whoever comes too early finds nothing and sleeps on.
    fn again(&self, tail: Tail, asked: Instant) -> Option<Duration> {
        if !tail.passed_over {
            self.passed_over.store(0, Ordering::Relaxed);
            return tail.again.map(|again| again.saturating_sub((asked.elapsed() / 2).min(self.grace)));
        }
        let times = self.passed_over.fetch_add(1, Ordering::Relaxed).min(5);
        let pause = (PASSED_OVER.0 * 2_u32.pow(times)).min(PASSED_OVER.1);
        Some(tail.again.map_or(pause, |again| again.min(pause)))
    }
}

/// Asks that want the same, by their place among all.
fn alike<W, K: PartialEq>(asks: &[Ask<W>], key: impl Fn(&W) -> K) -> Vec<(K, Vec<usize>)> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for (place, ask) in asks.iter().enumerate() {
        let key = key(&ask.want);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, places)) => places.push(place),
            None => groups.push((key, vec![place])),
        }
    }
    groups
}

/// An answer for each place; whatever a group got is dealt out among its places.
fn answers<I>(asks: usize) -> Vec<Answer<I>> {
    (0..asks).map(|_| Answer::default()).collect()
}

/// Tells a group's places what its look said.
fn tell<I>(answers: &mut [Answer<I>], places: &[usize], found: usize, tail: Tail, again: Option<Duration>) {
    for place in places {
        let answer = &mut answers[*place];
        answer.taken = u32::from(answer.item.is_some());
        answer.full = found == places.len() && !tail.is_dry;
        answer.again = again;
        answer.dry = tail.is_dry;
    }
}

async fn in_time<T>(look: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = |_| Err(sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut)));
    tokio::time::timeout(LOOK_WITHIN, look).await.unwrap_or_else(late)
}

pub(crate) struct TurnSource {
    store: Arc<Store>,
    sight: Sight,
}

impl Source for TurnSource {
    type Want = turns::Want;
    type Item = Turn;
    type Error = sqlx::Error;

    async fn look(&self, asks: Vec<Ask<turns::Want>>) -> Result<Vec<Answer<Turn>>, sqlx::Error> {
        let mut answers = answers(asks.len());
        for (want, places) in alike(&asks, |want| *want) {
            let (asked, most) = (Instant::now(), i32::try_from(places.len()).unwrap_or(i32::MAX));
            let (turns, tail) = in_time(self.store.claim_turns(most, want)).await?;
            let found = turns.len();
            for (place, turn) in places.iter().zip(turns) {
                answers[*place].item = Some(turn);
            }
            tell(&mut answers, &places, found, tail, self.sight.again(tail, asked));
        }
        Ok(answers)
    }

    fn is_away(error: &sqlx::Error) -> bool {
        bugle_wake::is_away(error)
    }

    async fn hand_back(&self, _: Number, turn: Turn) {
        for pause in HAND_BACK_PAUSES {
            match self.store.release_turn(&turn.token, None, true).await {
                Err(error) if error.is_retryable() && !self.store.pool.is_closed() => {
                    tracing::warn!(%error, instance = turn.item.instance, "a turn could not be given back");
                }
                _ => return, // a lease that was lost needs nothing
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

pub(crate) struct WorkSource {
    store: Arc<Store>,
    sight: Sight,
}

impl Source for WorkSource {
    type Want = work::Want;
    type Item = Claimed;
    type Error = sqlx::Error;

    async fn look(&self, asks: Vec<Ask<work::Want>>) -> Result<Vec<Answer<Claimed>>, sqlx::Error> {
        let mut answers = answers(asks.len());
        for (rules, places) in alike(&asks, |want| want.rules.clone()) {
            let asked = Instant::now();
            let owners: Vec<Option<&str>> =
                places.iter().map(|place| asks[*place].want.owner.as_deref()).collect();
            let (claimed, tail) = in_time(self.store.claim_work(&owners, &rules)).await?;
            let found = claimed.len();
            for work in claimed {
                if let Some(place) = places.get(work.asked) {
                    answers[*place].item = Some(work);
                }
            }
            tell(&mut answers, &places, found, tail, self.sight.again(tail, asked));
        }
        Ok(answers)
    }

    fn is_away(error: &sqlx::Error) -> bool {
        bugle_wake::is_away(error)
    }

    async fn hand_back(&self, _: Number, work: Claimed) {
        for pause in HAND_BACK_PAUSES {
            match self.store.release_work(&work.token, None, true).await {
                Err(error) if error.is_retryable() && !self.store.pool.is_closed() => {
                    tracing::warn!(%error, "work could not be given back");
                }
                _ => return,
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}
