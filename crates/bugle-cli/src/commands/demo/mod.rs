//! `bugle demo`: everything at work, to be watched and to be killed.

mod fleet;
mod keys;
mod producer;
mod screen;
mod summary;
pub(crate) mod worker;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{self, Interrupts};
use crate::output::Output;
use crate::place::Place;
use crate::span;
use crate::view::{History, Poller, Snapshot};
use bugle::Bugle;
use bugle::pg::embedded::Stay;
use fleet::Fleet;
use keys::Key;
use producer::Producers;
use screen::Screen;
use std::time::Duration;
use summary::Summary;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// The queue that the demo uses.
const QUEUE: &str = "demo";
/// A killed worker's jobs run elsewhere after at most this long.
const LEASE: Duration = Duration::from_secs(5);
/// How often the screen moves; the database is asked once a second.
const TICK: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_secs(1);

/// See Bugle work: producers, two worker processes that you may kill, and a live view
///
/// Producers write an order into a table of their own (bugle_demo.orders) and enqueue its job in the
/// same transaction; now and then they roll back, and then there is neither. Two worker processes run
/// the jobs: some fail and are tried again, some die. Kill a worker with kill -9 and watch its jobs run
/// elsewhere when its 5 s lease ends.
///
/// Without a terminal, or with --output, it prints a line a second instead of the live view.
#[allow(clippy::doc_markdown)] // this is a help text
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  bugle demo                       q quits, k kills a worker
  bugle demo --ephemeral           leaves nothing on the disk
  bugle demo --for 5s --rate 500   ends by itself

While it runs, in another terminal: bugle queue ls, bugle job ls, bugle job show ID, bugle doctor"
)]
pub(crate) struct Args {
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    length: Option<Duration>,
    /// Jobs a second
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
}

pub(crate) async fn run(args: &Args, global: &Global, output: Output) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::catch().map_err(|e| Failure::system("catch signals", &e))?;
    if output.is_a_live_terminal() {
        output.line("starting PostgreSQL, two workers and some producers ...")?;
    }
    let place = tokio::select! {
        place = Place::open(global, Stay::Long) => place?,
        signal = interrupts.next() => return Err(Failure::interrupted(signal)),
    };
    let shown = show(args, global, &place, output, &mut interrupts).await;
    // From here on a second Ctrl-C ends it at once.
    drop(interrupts);
    tokio::spawn(interrupt::first_then_die());
    let closed = place.close(false).await;
    output_summary(&shown?, output)?;
    closed.map(|()| Exit::Ok)
}

/// After the screen is gone, so that it stays readable.
fn output_summary(summary: &Summary, output: Output) -> Result<(), Failure> {
    if output.asked_for_json() {
        output.json(summary)?;
    } else {
        output.text(&summary.text())?;
    }
    Ok(())
}

/// The show itself, from the first producer to the last job settled.
async fn show(
    args: &Args,
    global: &Global,
    place: &Place,
    output: Output,
    interrupts: &mut Interrupts,
) -> Result<Summary, Failure> {
    let bugle = place.bugle(12).await?;
    bugle.queue(QUEUE).await?;
    sqlx::raw_sql(include_str!("sql/create.sql")).execute(bugle.pool()).await?;
    let mut poller = Poller::new(&bugle, Some(QUEUE)).await?;
    let before = poller.poll().await?;
    let begun = Instant::now();
    let stop = CancellationToken::new();
    let producers = Producers::start(&bugle, args.rate, &stop);
    let mut fleet = Fleet::start(place.url(), global, args.rate, output.is_a_live_terminal())?;
    let mut screen = Screen::open(output, place)?;

    let watched = watch(args, &bugle, &mut poller, &producers, &mut fleet, &mut screen, interrupts).await;
    let length = begun.elapsed();
    screen.close();
    stop.cancel();
    producers.end().await;
    fleet.stop().await;
    watched?;
    let after = poller.poll().await?;
    Ok(Summary::new(length, &before, &after, &producers, fleet.pick_up(), fleet.killed()))
}

async fn watch(
    args: &Args,
    bugle: &Bugle,
    poller: &mut Poller,
    producers: &Producers,
    fleet: &mut Fleet,
    screen: &mut Screen,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut polled_at = begun;
    let mut snapshot = Snapshot::default();
    let mut history = History::default();
    loop {
        let key = tokio::select! {
            _ = tick.tick() => None,
            key = screen.key() => Some(key),
            _ = interrupts.next() => return Ok(()),
        };
        match key {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Pause) => producers.toggle_pause(),
            Some(Key::Kill) => fleet.kill_one(),
            None => {}
        }
        fleet.tick()?;
        let is_new = polled_at.elapsed() >= POLL;
        if is_new {
            polled_at = Instant::now();
            snapshot = poller.poll().await?;
            history.push(&snapshot);
        }
        snapshot.pick_up = fleet.pick_up();
        let mut shown = snapshot.clone();
        shown.workers = fleet.lines(&snapshot.workers);
        screen.show(&shown, &history, is_new, producers.is_paused())?;
        if args.length.is_some_and(|length| begun.elapsed() >= length) {
            return Ok(());
        }
        if bugle.pool().is_closed() {
            return Err(Failure::server("the database is gone"));
        }
    }
}
