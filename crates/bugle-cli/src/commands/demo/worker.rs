//! One worker of the demo, in a process of its own.
//!
//! It tells its parent on standard output how long each job had been due (`picked up after N` microseconds, by the database's clock),
//! and ends when its standard input does: the parent holds the other end, and the kernel closes it however the parent dies.

use super::{LEASE, QUEUE};
use crate::args::{Format, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::place::Place;
use bugle::jobs::{Backoff, Claimed};
use bugle::pg::embedded::Stay;
use bugle::{Ctx, Job, Verdict};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longer than any job of the demo.
const DRAIN: Duration = Duration::from_secs(4);

/// What a line of measurement begins with.
pub(super) const PICKED_UP: &str = "picked up after ";

/// One worker of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which one it is.
    number: u32,
    /// How many jobs it runs at once.
    concurrency: u32,
}

/// The job of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PackOrder {
    order: i64,
    /// How long it takes.
    takes_ms: u64,
    /// How many attempts fail before one succeeds.
    failures: u16,
}

impl Job for PackOrder {
    const KIND: &'static str = "pack_order";
    const QUEUE: &'static str = QUEUE;
    const MAX_ATTEMPTS: u16 = 3;
}

impl PackOrder {
    /// Most are quick; some take seconds, so that a killed worker has something in its hands; some fail, and a few always do.
    pub(super) fn random(order: i64) -> Self {
        let takes_ms = match rand::random_range(0..100) {
            0..3 => rand::random_range(1_000..3_000),
            _ => rand::random_range(2..30),
        };
        let failures = match rand::random_range(0..1_000) {
            0..50 => 1,
            50..60 => u16::MAX,
            _ => 0,
        };
        Self { order, takes_ms, failures }
    }
}

/// The name under which a worker holds its jobs.
pub(super) fn name(number: u32, pid: u32) -> String {
    format!("demo-{number}:{pid}")
}

pub(crate) async fn run(args: Args, global: &Global) -> Result<Exit, Failure> {
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            let _ = interrupt::first_then_die().await;
            stop.cancel();
        }
    });
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut nothing = [0; 1];
            while let Ok(1..) = std::io::stdin().read(&mut nothing) {}
            stop.cancel();
            // A parent that was killed has taken its database along: what cannot be settled is left to the end of its lease.
            std::thread::sleep(DRAIN + Duration::from_secs(2));
            std::process::exit(i32::from(Exit::Server.code()));
        }
    });
    let place = Place::open(global, Stay::Long).await?;
    let bugle = place.bugle(4).await?;
    let output = Output::new(Some(Format::Table));
    let started_at = chrono::Utc::now();
    bugle
        .worker(QUEUE)
        .name(name(args.number, std::process::id()))
        .concurrency(args.concurrency)
        .lease(LEASE)
        .drain(DRAIN)
        .backoff(Backoff::exponential(Duration::from_millis(500), Duration::from_secs(4)))
        .handle_any(move |claimed: Claimed, ctx: Ctx| async move {
            // A job of an earlier demo waited for somebody to start the next one.
            if claimed.due_at > started_at {
                tell_wait(&claimed, output);
            }
            pack(&claimed, &ctx).await
        })
        .run(stop)
        .await?;
    Ok(Exit::Ok)
}

/// How long the job had been due. Its lease began when it was claimed, and the end of that was read with the job.
fn tell_wait(claimed: &Claimed, output: Output) {
    let waited = claimed.lease_until - LEASE - claimed.due_at;
    let microseconds = waited.num_microseconds().unwrap_or_default().max(0);
    // A parent that is gone ends this process by its standard input.
    let _ = output.line(&format!("{PICKED_UP}{microseconds}"));
}

async fn pack(claimed: &Claimed, ctx: &Ctx) -> Verdict {
    let order: PackOrder = match serde_json::from_str(claimed.payload.get()) {
        Ok(order) => order,
        Err(error) => return Verdict::Dead { code: "payload".to_owned(), message: error.to_string() },
    };
    tokio::time::sleep(Duration::from_millis(order.takes_ms)).await;
    if ctx.attempt <= order.failures {
        let message = format!("order {} does not fit into its box", order.order);
        return Verdict::Fail { code: "box_too_small".to_owned(), message };
    }
    Verdict::Done
}
