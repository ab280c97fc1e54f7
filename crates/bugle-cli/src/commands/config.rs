//! `bugle config`: every option with its value.

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::span;
use bugle::wake_engine::{Options, Policy};
use serde::Serialize;

/// Looking at the options.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the options of the wake engine, as this command would use them
    #[command(after_help = "Example:\n  bugle --wake heartbeat=5s --wake linger=20ms config show")]
    Show,
}

#[derive(Serialize)]
struct Row {
    option: &'static str,
    value: String,
    default: String,
    what: String,
}

pub(crate) fn show(global: &Global, output: Output) -> Result<Exit, Failure> {
    let defaults = Options::default().table();
    let rows: Vec<Row> = wake_options(global)?
        .table()
        .into_iter()
        .zip(defaults)
        .map(|((option, value, what), (_, default, _))| Row { option, value, default, what })
        .collect();
    output.rows(&rows, || {
        let left = |name| (name, Align::Left);
        let mut table =
            Table::new(&[left("option"), left("value"), left("default"), left("what it does")]).uncut();
        for row in &rows {
            table.row([row.option.to_owned(), row.value.clone(), row.default.clone(), row.what.clone()]);
        }
        table
    })?;
    Ok(Exit::Ok)
}

/// The options that were given, by `--wake` or in `BUGLE_WAKE`; what is typed goes before what is set.
pub(crate) fn wake_options(global: &Global) -> Result<Options, Failure> {
    let mut options = Options::default();
    let environment = std::env::var("BUGLE_WAKE").unwrap_or_default();
    for pair in
        environment.split(',').filter(|pair| !pair.is_empty()).chain(global.wake.iter().map(String::as_str))
    {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Failure::user(format!("{pair:?} is no option of the wake engine; write NAME=VALUE"))
        })?;
        set(&mut options, name.trim(), value.trim()).map_err(|fault| {
            Failure::user(format!("wake option {name}: {fault}; `bugle config show` lists them all"))
        })?;
    }
    Ok(options)
}

fn set(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    fn number<N: std::str::FromStr>(value: &str) -> Result<N, String> {
        value.parse().map_err(|_| format!("{value:?} is no whole number"))
    }
    match name {
        "fast_rings" => options.fast_rings = number(value)?,
        "alert_empty_looks" => options.alert_empty_looks = number(value)?,
        "intentions_max" => options.intentions_max = number(value)?,
        "looks_max" => options.looks_max = number::<usize>(value)?.max(1),
        "listen" => {
            options.listen = value.parse().map_err(|_| format!("{value:?} is neither true nor false"))?;
        }
        "alert" => {
            options.alert =
                Policy::parse(value).ok_or_else(|| format!("{value:?} is neither on_fault nor on_wake"))?;
        }
        _ => {
            let time = span::parse(value)?;
            if time.is_zero() {
                return Err("is zero".to_owned());
            }
            if !options.times.set(name, time) {
                return Err("there is no such option".to_owned());
            }
        }
    }
    Ok(())
}
