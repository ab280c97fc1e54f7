//! A process of a benchmark, as the child sees it: it is told what it is, then does what it is told, one order at a time.

mod bare;
mod producer;
mod worker;

use super::ground::quiet;
use super::wire::{Part, Spec, Started};
use crate::args::Format;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::pg::connect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// A child whose parent is gone has lost its database as well, more often than not: it does not wait for it.
const END_WITHIN: Duration = Duration::from_secs(4);

pub(crate) async fn run() -> Result<Exit, Failure> {
    let mut orders = Orders::read();
    let Some(spec) = orders.next::<Spec>().await? else { return Ok(Exit::Ok) };
    let connect = quiet(connect::Options::parse(&spec.url)?.connect.database(&spec.database));
    match spec.part {
        Part::Producer => producer::run(&connect, orders).await?,
        Part::Worker { queues, slots } => worker::run(connect, &queues, slots, None, orders).await?,
        Part::Stuck { queue, slots, lease } => {
            worker::run(connect, &[queue], slots, Some(lease), orders).await?;
        }
        Part::Bare => bare::run(connect, orders).await?,
    }
    Ok(Exit::Ok)
}

/// The lines of standard input.
struct Orders(mpsc::UnboundedReceiver<String>);

impl Orders {
    /// Reads on a thread of its own: a read of standard input cannot be given up.
    fn read() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
            drop(sender);
            std::thread::sleep(END_WITHIN);
            std::process::exit(i32::from(Exit::Server.code()));
        });
        Self(receiver)
    }

    /// The next one; none when the parent wants no more.
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let Some(line) = self.0.recv().await else { return Ok(None) };
        let order = serde_json::from_str(&line);
        order
            .map(Some)
            .map_err(|e| Failure::user(format!("this is for `bugle bench` to use, not for people: {e}")))
    }
}

fn answer(value: &impl Serialize) -> Result<(), Failure> {
    Ok(Output::new(Some(Format::Json)).json(value)?)
}

/// An order that this part cannot carry out.
fn misdirected() -> Failure {
    Failure::server(
        "an order for another process of the benchmark; this is a mistake in Bugle, please report it",
    )
}

/// What has been started since the last report.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<Vec<Started>>>);

impl Starts {
    fn add(&self, started: Started) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(started);
    }

    fn take(&self) -> Vec<Started> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
