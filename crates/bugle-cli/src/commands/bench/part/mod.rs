//! A process of a benchmark, as the child sees it: it is told what it is, then does what it is told, one order at a time.

mod bare;
mod flow;
mod producer;
mod worker;

use super::ground::quiet;
use super::scene;
use super::wire::{Part, Spec, Started};
use crate::args::Format;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use bugle::pg::connect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) async fn run() -> Result<Exit, Failure> {
    let mut orders = Orders(scene::Orders::read());
    let Some(spec) = orders.next::<Spec>().await? else { return Ok(Exit::Ok) };
    let connect = quiet(connect::Options::parse(&spec.url)?.connect.database(&spec.database));
    match spec.part {
        Part::Producer => producer::run(&connect, orders).await?,
        Part::Worker { queues, slots } => worker::run(connect, &queues, slots, None, orders).await?,
        Part::Stuck { queue, slots, lease } => {
            worker::run(connect, &[queue], slots, Some(lease), orders).await?;
        }
        Part::Flow { sets, slots, namespaces } => {
            flow::run(connect, &sets, slots, namespaces, orders).await?;
        }
        Part::Bare => bare::run(connect, orders).await?,
    }
    Ok(Exit::Ok)
}

/// The lines of standard input.
struct Orders(scene::Orders);

impl Orders {
    /// The next one; none when the parent wants no more.
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let order = self.0.next().await;
        order.map_err(|e| Failure::user(format!("this is for `bugle bench` to use, not for people: {e}")))
    }
}

fn answer(value: &impl Serialize) -> Result<(), Failure> {
    Ok(Output::new(Some(Format::Json)).json(value)?)
}

/// An order that this part cannot carry out.
fn misdirected() -> Failure {
    Failure::server(scene::MISDIRECTED)
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
