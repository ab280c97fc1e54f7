//! Single-row transactions a second, beside a bare INSERT.

use super::super::check::{Check, Target};
use super::super::child::Child;
use super::super::engine::{self, Rings};
use super::super::figure::{Figure, number, of_rounds, rate};
use super::super::ground::Ground;
use super::super::wire::{Order, Part, Saturated, Write};
use super::Plan;
use crate::failure::Failure;
use crate::output::{Align, Table};
use indicatif::ProgressBar;
use serde::Serialize;
use std::time::Duration;

/// What a slowed flush is called.
const SLOW: &str = "2 ms";
/// The queue whose bell is held.
const QUEUE: &str = "bench";
/// Notifications of the last commits are still on their way when the producer has its answers.
const RINGS_ARRIVE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Bare,
    BareNotify,
    Awake,
    Asleep,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare INSERT",
            Self::BareNotify => "bare INSERT, NOTIFY",
            Self::Awake => "enqueue, awake",
            Self::Asleep => "enqueue, asleep",
        }
    }

    fn write(self) -> Write {
        match self {
            Self::Bare => Write::Bare,
            Self::BareNotify => Write::BareNotify,
            Self::Awake | Self::Asleep => Write::Job,
        }
    }
}

/// One line of the result, not yet measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    slow_flush: bool,
    clients: usize,
    side: Side,
}

/// One round of a cell.
struct Round {
    per_s: f64,
    ratio: f64,
    notifies_per_tx: f64,
}

/// One line of the result.
#[derive(Serialize)]
pub(super) struct Row {
    flush: &'static str,
    clients: usize,
    side: &'static str,
    tx_per_s: Option<Figure>,
    /// To bare INSERT of the same round.
    ratio: Option<Figure>,
    notifies_per_tx: Option<Figure>,
}

/// All lines, the four sides together.
pub(super) fn cells(clients: &[usize], may_slow_down: bool) -> Vec<Cell> {
    let sides = [Side::Bare, Side::BareNotify, Side::Awake, Side::Asleep];
    let mut cells = Vec::new();
    for slow_flush in [false, true].into_iter().filter(|slow| !slow || may_slow_down) {
        for clients in clients {
            cells.extend(sides.iter().map(|side| Cell { slow_flush, clients: *clients, side: *side }));
        }
    }
    cells
}

/// May the flush be slowed down? Only a superuser may.
pub(super) async fn may_slow_down(ground: &Ground) -> Result<bool, Failure> {
    let session = ground.pool().acquire().await?;
    let mut session = session.detach(); // its settings are not for the pool
    match sqlx::raw_sql(include_str!("../sql/slow_flush.sql")).execute(&mut session).await {
        Ok(_) => Ok(true),
        Err(sqlx::Error::Database(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn measure(
    plan: Plan,
    ground: &Ground,
    cells: &[Cell],
    bar: &ProgressBar,
) -> Result<Vec<Row>, Failure> {
    let mut producer = ground.start(Part::Producer).await?;
    let rings = engine::listen(ground.pool()).await?;
    let mut rounds: Vec<Vec<Round>> = cells.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        ground.make_tables().await?;
        let mut bare = f64::NAN;
        for (cell, rounds) in cells.iter().zip(&mut rounds) {
            let (saturated, heard) = write(plan, ground, *cell, &mut producer, &rings).await?;
            let per_s = rate(saturated.commits, saturated.took);
            if cell.side == Side::Bare {
                bare = per_s; // the first of the sides of this flush and number of clients
            }
            rounds.push(Round {
                per_s,
                ratio: per_s / bare,
                notifies_per_tx: number(heard) / number(saturated.commits + saturated.warm_up),
            });
            bar.inc(1);
        }
    }
    producer.end().await;
    Ok(cells.iter().zip(&rounds).map(|(cell, rounds)| row(*cell, rounds)).collect())
}

/// Lets the producer write on one side, with a sleeper if that is what it is about.
async fn write(
    plan: Plan,
    ground: &Ground,
    cell: Cell,
    producer: &mut Child,
    rings: &Rings,
) -> Result<(Saturated, usize), Failure> {
    let sleeper = match cell.side {
        Side::Asleep => Some(engine::hold_bell(ground.pool(), QUEUE).await?),
        _ => None,
    };
    rings.take();
    let order = Order::Saturate {
        write: cell.side.write(),
        clients: cell.clients,
        length: plan.length,
        slow_flush: cell.slow_flush,
    };
    let saturated: Saturated = producer.ask(&order).await?;
    tokio::time::sleep(RINGS_ARRIVE).await;
    let heard = rings.take();
    if let Some(sleeper) = sleeper {
        sleeper.wake().await?;
    }
    Ok((saturated, heard))
}

/// What must hold where a flush takes its time: being able to wake costs next to nothing.
pub(super) fn check(rows: &[Row]) -> Check {
    let slow = |row: &&Row| row.flush == SLOW && row.side == Side::Awake.name();
    let ratio = rows.iter().filter(slow).max_by_key(|row| row.clients).and_then(|row| row.ratio);
    let name = "single enqueue, most clients, 2 ms flush, consumers awake / bare INSERT";
    Check::new(name, ratio, Target::AtLeast(0.9))
}

fn row(cell: Cell, rounds: &[Round]) -> Row {
    Row {
        flush: if cell.slow_flush { SLOW } else { "normal" },
        clients: cell.clients,
        side: cell.side.name(),
        tx_per_s: of_rounds(rounds, |round| round.per_s.round()),
        ratio: of_rounds(rounds, |round| round.ratio),
        notifies_per_tx: of_rounds(rounds, |round| round.notifies_per_tx),
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("flush", Align::Left),
        right("clients"),
        ("producer", Align::Left),
        right("tx/s"),
        right("min to max"),
        right("ratio"),
        right("min to max"),
        right("notify/tx"),
    ]);
    for row in rows {
        let ([tx, tx_rounds], [ratio, ratio_rounds]) =
            (Figure::cells(row.tx_per_s, 0), Figure::cells(row.ratio, 2));
        let [notifies, _] = Figure::cells(row.notifies_per_tx, 2);
        table.row([
            row.flush.to_owned(),
            row.clients.to_string(),
            row.side.to_owned(),
            tx,
            tx_rounds,
            ratio,
            ratio_rounds,
            notifies,
        ]);
    }
    table
}
