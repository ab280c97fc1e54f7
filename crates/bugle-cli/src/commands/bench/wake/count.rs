//! Notifications and looks for each job, with a real worker in another process.

use super::super::engine;
use super::super::figure::{Figure, number, of_rounds};
use super::super::ground::Ground;
use super::super::meter::Meter;
use super::super::pick_up::{rate_of, starts};
use super::super::wire::{Order, Part, Sent, Write};
use super::Plan;
use crate::failure::Failure;
use crate::output::{Align, Table};
use indicatif::ProgressBar;
use serde::Serialize;
use std::time::Duration;

const QUEUE: &str = "bench";
/// Seldom enough to fall asleep between two jobs, and too often for it.
pub(super) const RATES: [u32; 2] = [10, 2_000];
const SLOTS: u32 = 16;
/// At 10 a second a round needs some jobs: so many times the length of a round of the costs.
const LONGER: u32 = 3;
/// A worker that has just started has looked and fallen asleep after this.
const SETTLE: Duration = Duration::from_millis(500);

struct Round {
    jobs_per_s: f64,
    notifies: f64,
    looks: Option<f64>,
}

/// One line of the result.
#[derive(Serialize)]
pub(super) struct Row {
    rate: u32,
    jobs_per_s: Option<Figure>,
    notifies_per_job: Option<Figure>,
    /// None where statements cannot be counted.
    looks_per_job: Option<Figure>,
}

pub(super) async fn measure(
    plan: Plan,
    ground: &Ground,
    meter: Option<&Meter>,
    bar: &ProgressBar,
) -> Result<Vec<Row>, Failure> {
    let mut rounds = RATES.map(|_| Vec::new());
    for _ in 0..plan.rounds {
        for (rate, rounds) in RATES.into_iter().zip(&mut rounds) {
            rounds.push(round(plan, rate, ground, meter).await?);
            bar.inc(1);
        }
    }
    Ok(RATES.into_iter().zip(&rounds).map(|(rate, rounds)| row(rate, rounds)).collect())
}

async fn round(plan: Plan, rate: u32, ground: &Ground, meter: Option<&Meter>) -> Result<Round, Failure> {
    ground.make_tables().await?;
    let looks = async || match meter {
        Some(meter) => meter.read(ground.database()).await.map(Some),
        None => Ok(None),
    };
    let mut producer = ground.start(Part::Producer).await?;
    let mut consumers = [ground.start(Part::Worker { queues: vec![QUEUE.to_owned()], slots: SLOTS }).await?];
    let rings = engine::listen(ground.pool()).await?;
    tokio::time::sleep(SETTLE).await;
    let before = looks().await?;
    rings.take();
    let length = plan.length * LONGER;
    let order = Order::Pace { write: Write::Job, queue: QUEUE.to_owned(), rate, length };
    let sent: Vec<Sent> = producer.ask(&order).await?;
    starts(&mut consumers, sent.len()).await?;
    let (after, heard) = (looks().await?, rings.take());
    producer.end().await;
    for consumer in consumers {
        consumer.end().await;
    }
    let jobs = number(sent.len());
    Ok(Round {
        jobs_per_s: rate_of(&sent),
        notifies: number(heard) / jobs,
        looks: before.zip(after).map(|(before, after)| number(after.since(before).1) / jobs),
    })
}

fn row(rate: u32, rounds: &[Round]) -> Row {
    let looks: Vec<f64> = rounds.iter().filter_map(|round| round.looks).collect();
    Row {
        rate,
        jobs_per_s: of_rounds(rounds, |round| round.jobs_per_s),
        notifies_per_job: of_rounds(rounds, |round| round.notifies),
        looks_per_job: Figure::of(&looks),
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        right("asked jobs/s"),
        right("jobs/s"),
        right("notify/job"),
        right("min to max"),
        right("looks/job"),
        right("min to max"),
    ]);
    for row in rows {
        let [jobs, _] = Figure::cells(row.jobs_per_s, 0);
        let [notifies, notify_rounds] = Figure::cells(row.notifies_per_job, 3);
        let [looks, look_rounds] = Figure::cells(row.looks_per_job, 3);
        table.row([row.rate.to_string(), jobs, notifies, notify_rounds, looks, look_rounds]);
    }
    table
}
