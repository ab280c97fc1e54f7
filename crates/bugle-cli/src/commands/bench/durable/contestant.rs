//! A provider that takes part: its database, and the processes that work there.

use super::super::child::{Child, own_program};
use super::super::ground::Ground;
use super::super::scene::wire::{Job, Kind, Order, Role, Seen, Sent};
use crate::failure::Failure;
use crate::place::Place;
use bugle_duroxide::POOL_MAX_VARIABLE;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::process::Command;

const CONNECTIONS_MAX: &str = "20";
/// How often a node is asked whether it is ready with everything.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// The longest that instances may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// The others, as their program knows them.
const PEERS: [&str; 2] = ["duroxide-pg", "duroxide-pg-opt"];

pub(super) struct Contestant {
    pub(super) name: &'static str,
    ground: Option<Ground>,
    database: String,
    url: String,
    /// None: this one.
    program: Option<PathBuf>,
}

impl Contestant {
    /// Bugle, and with their program the others.
    pub(super) async fn all(place: &Place, peers: Option<&Path>) -> Result<Vec<Self>, Failure> {
        let mut all = vec![Self::make(place, "bugle", None).await?];
        if let Some(program) = peers {
            for name in PEERS {
                all.push(Self::make(place, name, Some(program.to_owned())).await?);
            }
        }
        Ok(all)
    }

    async fn make(place: &Place, name: &'static str, program: Option<PathBuf>) -> Result<Self, Failure> {
        let ground = Ground::make(place, &format!("durable_{}", name.replace('-', "_"))).await?;
        // The parent's own sessions would be counted with the node's.
        ground.pool().close().await;
        let url = ground.url();
        let database = ground.database().to_owned();
        Ok(Self { name, database, url, ground: Some(ground), program })
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) async fn drop(&mut self) -> Result<(), Failure> {
        match self.ground.take() {
            Some(ground) => ground.drop().await,
            None => Ok(()),
        }
    }

    async fn start(&self, job: Job) -> Result<Child, Failure> {
        let mut program = match &self.program {
            Some(program) => Command::new(program),
            None => own_program()?,
        };
        if self.program.is_none() {
            program.args(["bench", "scene"]);
        }
        // What a runtime logs goes to standard output, which is for answers.
        program.env(POOL_MAX_VARIABLE, CONNECTIONS_MAX).env("RUST_LOG", "off");
        let role = Role { url: self.url.clone(), provider: self.name.to_owned(), job };
        Child::spawn(&mut program, &role).await
    }

    pub(super) async fn client(&self) -> Result<Client, Failure> {
        Ok(Client(self.start(Job::Client).await?))
    }

    pub(super) async fn node(&self, dispatchers: usize) -> Result<Node, Failure> {
        Ok(Node(self.start(Job::Node { dispatchers }).await?))
    }
}

/// The process that starts instances.
pub(super) struct Client(Child);

impl Client {
    pub(super) async fn start(&mut self, order: &Order) -> Result<Vec<Sent>, Failure> {
        self.ask(order).await
    }

    pub(super) async fn ask<A: serde::de::DeserializeOwned>(&mut self, order: &Order) -> Result<A, Failure> {
        let length = match order {
            Order::Pace { every, count, .. } => *every * u32::try_from(*count).unwrap_or(u32::MAX),
            _ => Duration::ZERO,
        };
        self.0.ask_within(order, length).await
    }

    pub(super) async fn end(self) {
        self.0.end().await;
    }
}

/// The process that runs them.
pub(super) struct Node(Child);

/// An instance from its start to its end, and how long each part took, in milliseconds.
pub(super) struct Course {
    pub(super) sent_ns: i64,
    pub(super) seen: Seen,
}

impl Node {
    /// Waits until all of these have ended.
    pub(super) async fn courses(&mut self, sent: Vec<Sent>) -> Result<Vec<Course>, Failure> {
        let begun = Instant::now();
        let mut open: HashMap<String, i64> =
            sent.into_iter().map(|sent| (sent.instance, sent.at_ns)).collect();
        let mut courses = Vec::new();
        while !open.is_empty() {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::server(format!(
                    "{} instances have not ended after {} s, among them {:?}",
                    open.len(),
                    PATIENCE.as_secs(),
                    open.keys().next()
                )));
            }
            tokio::time::sleep(ASK_EVERY).await;
            let ended: Vec<Seen> = self.0.ask_within(&Order::Report, Duration::ZERO).await?;
            for seen in ended {
                let sent = open.remove(&seen.instance);
                courses.extend(sent.map(|sent_ns| Course { sent_ns, seen }));
            }
        }
        Ok(courses)
    }

    /// A few instances: sessions are made, statements are prepared.
    pub(super) async fn warm_up(&mut self, client: &mut Client, prefix: String) -> Result<(), Failure> {
        let order = Order::Burst { kind: Kind::FanOut, prefix, count: 8, callers: 4 };
        let sent = client.start(&order).await?;
        self.courses(sent).await.map(drop)
    }

    pub(super) async fn end(self) {
        self.0.end().await;
    }
}
