//! Coordinators: the steps of many namespaces on one node.
//!
//! A coordinator is a namespace's entry on the node's pump and its share of the node's slots: it has no task that looks, no timer and no
//! connection of its own, so that a thousand idle namespaces cost the heartbeat of one. Namespaces are found at the start and, through the
//! control bell, when their first workflow is defined.

use super::board::{Board, Coordination};
use super::worker::Crew;
use super::{Flow, StepWorker};
use crate::jobs::worker::IntoVerdict;
use crate::jobs::{Carries, ENGINE_QUEUE};
use crate::name::NamespaceName;
use crate::{Bugle, Error};
use bugle_wake::Room;
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Before something that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the steps of one worker set in all namespaces that have workflows, or in those whose names fit; [`Coordinators::run`] runs it.
#[must_use = "coordinators do nothing before `run`"]
pub struct Coordinators {
    /// Carries the handlers and the options of every namespace's worker.
    template: StepWorker,
    queue: String,
    patterns: Vec<String>,
    slots: u32,
    least: u32,
    most: u32,
    board: Board,
}

impl Flow {
    /// Coordinators for the steps of the queue (worker set) of this name, in all namespaces, without handlers yet.
    pub fn coordinators(&self, queue: &str) -> Coordinators {
        Coordinators {
            template: self.worker(queue),
            queue: queue.to_owned(),
            patterns: vec!["*".to_owned()],
            slots: 64,
            least: 1,
            most: 16,
            board: Board::default(),
        }
    }
}

impl Coordinators {
    /// What to do for steps with this handler, in whatever namespace: see [`StepWorker::handle`].
    pub fn handle<F, Fut>(mut self, handler: &str, run: F) -> Self
    where
        F: Fn(super::Step) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.template = self.template.handle(handler, run);
        self
    }

    /// Only namespaces whose names fit one of these patterns: `*` stands for anything. Default: all.
    pub fn namespaces<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.patterns = patterns.into_iter().map(str::to_owned).collect();
        self
    }

    /// Slots that all namespaces share on this node: each takes of them as it has work. Default 64.
    pub fn slots(mut self, common: u32) -> Self {
        self.slots = common;
        self
    }

    /// How many slots each namespace has for itself, whatever the others do, and how many it may take at most. What is set in the database
    /// ([`Flow::set`]) goes first. Default 1 and 16.
    pub fn each(mut self, least: u32, most: u32) -> Self {
        (self.least, self.most) = (least, most);
        self
    }

    /// How long a claim holds without a sign of life from this node. Default 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.template = self.template.lease(lease);
        self
    }

    /// How long running steps may go on after the order to stop. Default 25 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.template = self.template.drain(time);
        self
    }

    /// When a step that is ready is stale, where the database says nothing else ([`Flow::set`]): see [`StepWorker::stale_after`].
    pub fn stale_after(mut self, time: Duration) -> Self {
        self.template = self.template.stale_after(time);
        self
    }

    /// The name under which leases are held.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.template = self.template.name(name);
        self
    }

    /// What they do, to be read while they run.
    #[must_use]
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Serves every namespace that has workflows, and those that come, until `stop` is cancelled; then drains them all.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        self.template.check()?;
        // One that has none for itself would have to wait for the others even to see that there is nothing to do.
        if self.least == 0 || self.least > self.most {
            return Err(Error::Invalid {
                what: "slots of a namespace",
                fault: format!("are {} to {}", self.least, self.most),
                next: "use at least 1 for itself, and no more than at most",
            });
        }
        let room = Room::new(self.slots);
        self.board.begin(room.clone(), self.template.stale());
        let flow = self.template.flow.clone();
        let _opened = flow.counters().open(&self.board);
        let crew = self.template.crew();
        let mut round = Round { set: &self, crew, room, running: HashMap::new(), tasks: JoinSet::new() };
        round.serve(&stop).await;
        round.end().await;
        Ok(())
    }
}

/// A namespace, as it is listed.
#[derive(sqlx::FromRow, Clone, PartialEq, Eq)]
struct Listed {
    namespace: i32,
    name: String,
    engine: i32,
    queue: Option<i32>,
    slots_least: Option<i32>,
    slots_most: Option<i32>,
    stale_ms: Option<i64>,
}

impl Listed {
    fn stale_after(&self) -> Option<Duration> {
        self.stale_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()))
    }
}

struct Round<'a> {
    set: &'a Coordinators,
    crew: Crew,
    room: Room,
    running: HashMap<i32, (Listed, CancellationToken)>,
    tasks: JoinSet<(i32, Result<(), Error>)>,
}

impl Round<'_> {
    fn bugle(&self) -> &Bugle {
        &self.set.template.flow.bugle
    }

    async fn serve(&mut self, stop: &CancellationToken) {
        let mut control = self.bugle().control_changes();
        let mut again = true;
        while !stop.is_cancelled() {
            if again {
                control.borrow_and_update();
                again = match self.list().await {
                    Ok(listed) => {
                        self.set.board.listed(None);
                        self.reconcile(listed);
                        false
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot list the namespaces that have workflows, trying again");
                        self.set.board.listed(Some(error.to_string()));
                        true
                    }
                };
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = control.changed() => match changed {
                    Ok(()) => again = true,
                    Err(_) => return stop.cancelled().await, // the engine has stopped
                },
                Some(ended) = self.tasks.join_next() => again |= self.ended(ended),
                () = tokio::time::sleep(PAUSE), if again => {}
            }
        }
    }

    async fn list(&self) -> Result<Vec<Listed>, Error> {
        sqlx::query_as(self.set.template.flow.statements().list_spaces())
            .bind(&self.set.queue)
            .bind(&self.set.patterns)
            .fetch_all(&mut *self.bugle().connection().await?)
            .await
            .map_err(Error::executing)
    }

    /// Starts what is missing, and starts anew what has other settings: the old one drains meanwhile.
    fn reconcile(&mut self, listed: Vec<Listed>) {
        for space in listed {
            if self.running.get(&space.namespace).is_some_and(|(known, _)| *known == space) {
                continue;
            }
            let (number, name) = (space.namespace, space.name.clone());
            if let Err(error) = self.start(space) {
                tracing::error!(%error, namespace = name, "a namespace cannot be served");
                self.set.board.fail(number, name, error.to_string());
            }
        }
    }

    fn start(&mut self, space: Listed) -> Result<(), Error> {
        let name = NamespaceName::parse(&space.name)?;
        let bugle = self.bugle().with_namespace(name, space.namespace);
        let engine = bugle.known_queue(space.engine, ENGINE_QUEUE, Carries::Nothing)?;
        let stop = CancellationToken::new();
        let of = |set: Option<i32>, default: u32| set.map_or(default, i32::unsigned_abs);
        let most = of(space.slots_most, self.set.most);
        let least = of(space.slots_least, self.set.least).min(most);
        let worker = match space.queue {
            None => None,
            Some(number) => {
                let queue = bugle.known_queue(number, &self.set.queue, Carries::Steps)?;
                let worker = bugle.worker_of_known(queue).like(&self.set.template.worker);
                Some(worker.concurrency(most).in_room(self.room.clone(), least))
            }
        };
        tracing::info!(namespace = space.name, least, most, "coordinator started");
        let (flow, number) = (bugle.flow(), space.namespace);
        let crew = self.crew.in_flow(&flow, space.stale_after());
        self.tasks.spawn({
            let stop = stop.clone();
            async move {
                let steps = async {
                    match worker {
                        Some(worker) => crew.work(worker, stop.clone()).await,
                        None => Ok(()),
                    }
                };
                let (steps, engine) = tokio::join!(steps, flow.run_engine_on(engine, stop.clone()));
                (number, steps.and(engine))
            }
        });
        self.set.board.start(number, Coordination { namespace: space.name.clone(), least, most });
        self.set.template.flow.counters().coordinators_started.one();
        if let Some((_, old)) = self.running.insert(number, (space, stop)) {
            old.cancel();
        }
        Ok(())
    }

    /// One has ended. True: it must be started again.
    fn ended(&mut self, ended: Result<(i32, Result<(), Error>), tokio::task::JoinError>) -> bool {
        let (number, why) = match ended {
            Ok((_, Ok(()))) => return false, // it was replaced
            Ok((number, Err(error))) => (Some(number), error.to_string()),
            Err(error) => (None, error.to_string()),
        };
        tracing::warn!(namespace = number, why, "a coordinator ended, starting it again");
        self.set.template.flow.counters().coordinators_restarted.one();
        match number {
            Some(number) => {
                if let Some((space, _)) = self.running.remove(&number) {
                    self.set.board.fail(number, space.name, why);
                }
            }
            // A panic tells no number: whoever is not running any more is started again.
            None => self.running.retain(|_, (_, stop)| {
                stop.cancel();
                false
            }),
        }
        true
    }

    async fn end(&mut self) {
        for (_, stop) in self.running.values() {
            stop.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        self.set.board.end();
    }
}
