//! `bugle flow settings`, `set` and `mode`: how the workflows of a namespace are run.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::span;
use bugle::Mode;
use bugle::flow::inspect::{SettingRow, SettingValues};
use bugle::flow::{Flow, For, Settings};
use std::time::Duration;

/// What makes a namespace inherit a setting again.
const INHERIT: &str = "inherit";

/// Whom a setting is for.
#[derive(Debug, clap::Args)]
pub(super) struct Whom {
    /// For all namespaces that say nothing themselves, instead of the one of --namespace
    #[arg(long)]
    all: bool,
}

impl Whom {
    pub(super) fn whom(&self) -> For {
        if self.all { For::All } else { For::Namespace }
    }
}

/// A value, or what is inherited.
#[derive(Debug, Clone, Copy)]
struct Told<T>(Option<T>);

fn told<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Told<T>, String> {
    if text == INHERIT { Ok(Told(None)) } else { parse(text).map(|value| Told(Some(value))) }
}

fn slots(text: &str) -> Result<Told<u32>, String> {
    told(text, |text| number(text, "slots", 1000))
}

fn steps(text: &str) -> Result<Told<u32>, String> {
    told(text, |text| number(text, "steps", 100_000))
}

fn number(text: &str, of: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{text:?} is no number of {of}; use 1 to {most}, or {INHERIT}"))
}

fn time(text: &str) -> Result<Told<Duration>, String> {
    told(text, |text| span::parse(text).map_err(|fault| format!("{fault}; or {INHERIT}")))
}

fn mode(text: &str) -> Result<Told<Mode>, String> {
    let parse = |text: &str| text.parse().map_err(|fault| format!("{fault}; or {INHERIT}"));
    told(text, parse)
}

/// Set how many slots the workflows of a namespace have on each node, how many of its steps run at once on all of them, and when a step is stale
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It goes before what the nodes' code says, and takes effect on running nodes within a second. `inherit` makes a namespace
go by what is set for all again, and what is set for all by the options of each node.

Examples:
  bugle flow set --slots-most 4 --namespace shop
  bugle flow set --slots-most inherit --namespace shop
  bugle flow set --steps-most 20 --namespace shop          a limit for all nodes together, held by leases
  bugle flow set --stale-after 10s --all")]
pub(super) struct SetArgs {
    /// Slots of each node that are for this namespace alone, or `inherit`
    #[arg(long, value_name = "N", value_parser = slots, allow_hyphen_values = true)]
    slots_least: Option<Told<u32>>,
    /// Most slots of each node that it may take, or `inherit`
    #[arg(long, value_name = "N", value_parser = slots, allow_hyphen_values = true)]
    slots_most: Option<Told<u32>>,
    /// Most steps of it that run at once, on all nodes together, or `inherit`
    #[arg(long, value_name = "N", value_parser = steps, allow_hyphen_values = true)]
    steps_most: Option<Told<u32>>,
    /// A step that is ready for longer than this, while somebody could take it, is an alarm; or `inherit`
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    stale_after: Option<Told<Duration>>,
    #[command(flatten)]
    whom: Whom,
}

/// Set how those who wait for the steps of a namespace are woken, on every node within a second; or see it
#[derive(Debug, clap::Args)]
#[command(after_help = MODES)]
pub(super) struct ModeArgs {
    /// The mode, or `inherit`; left out: say what it is
    #[arg(value_parser = mode)]
    mode: Option<Told<Mode>>,
    /// How often to look, where the mode polls [default: as each node's `poll_interval` says]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "mode")]
    poll: Option<Duration>,
    #[command(flatten)]
    whom: Whom,
}

const MODES: &str = "\
It holds for all queues of its steps, those that come as well.

Modes:
  hybrid             by rings and timers; the heartbeat looks as well (the default)
  event_driven_only  by rings and timers alone: no fallback look
  polling_only       by the clock alone: no rings, no locks, a look every poll interval
  shadow             holds its place and counts the rings, but is served by polls
  inherit            as is set for all namespaces

Examples:
  bugle flow mode shadow --poll 1s --namespace shop
  bugle flow mode inherit --namespace shop
  bugle flow mode hybrid --all";

pub(super) async fn set(args: &SetArgs, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let settings = Settings {
        slots_least: args.slots_least.map(|told| told.0),
        slots_most: args.slots_most.map(|told| told.0),
        steps_most: args.steps_most.map(|told| told.0),
        stale_after: args.stale_after.map(|told| told.0),
    };
    if settings.is_empty() {
        return Err(Failure::user(
            "nothing to set; name --slots-least, --slots-most, --steps-most or --stale-after, or look with `bugle flow settings`",
        ));
    }
    flow.set(&settings, args.whom.whom()).await?;
    show(flow, args.whom.whom(), output).await
}

pub(super) async fn set_mode(args: &ModeArgs, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let whom = args.whom.whom();
    if let Some(Told(mode)) = args.mode {
        if let (None, Some(poll)) = (mode, args.poll) {
            return Err(Failure::user(format!(
                "--poll is {}, but the interval is inherited with the mode; name a mode, or leave --poll out",
                span::exact(poll)
            )));
        }
        flow.set_mode(mode, args.poll, whom).await?;
    }
    show(flow, whom, output).await
}

/// What it is now.
pub(super) async fn show(flow: &Flow, whom: For, output: Output) -> Result<Exit, Failure> {
    let row = flow.show_settings(whom).await?;
    if output.is_json() {
        output.json(&row)?;
    } else {
        output.text(&table(std::slice::from_ref(&row)).render())?;
    }
    Ok(Exit::Ok)
}

pub(super) async fn list(flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let rows = flow.list_settings().await?;
    output.rows(&rows, || table(&rows))?;
    if !output.is_json() {
        output.line("\nin brackets: inherited; -: as the options of each node say")?;
    }
    Ok(Exit::Ok)
}

fn table(rows: &[SettingRow]) -> Table {
    let mut table = Table::new(&[
        ("namespace", Align::Left),
        ("mode", Align::Left),
        ("poll", Align::Right),
        ("slots", Align::Right),
        ("at most", Align::Right),
        ("all nodes", Align::Right),
        ("stale after", Align::Right),
        ("steps", Align::Left),
    ]);
    for row in rows {
        let cell =
            |word: &dyn Fn(&SettingValues) -> Option<String>| match (word(&row.own), word(&row.effective)) {
                (Some(own), _) => own,
                (None, Some(inherited)) => format!("({inherited})"),
                (None, None) => "-".to_owned(),
            };
        table.row([
            row.namespace.clone().unwrap_or_else(|| "all others".to_owned()),
            cell(&|values| values.mode.map(|mode| mode.to_string())),
            cell(&|values| values.poll_interval.map(span::exact)),
            cell(&|values| values.slots_least.map(|slots| slots.to_string())),
            cell(&|values| values.slots_most.map(|slots| slots.to_string())),
            cell(&|values| values.steps_most.map(|steps| steps.to_string())),
            cell(&|values| values.stale_after.map(span::exact)),
            cell(&|values| values.paused.map(|paused| if paused { "paused" } else { "begin" }.to_owned())),
        ]);
    }
    table
}
