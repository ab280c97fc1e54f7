//! `bugle flow route`: rules that choose the worker set of steps.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use bugle::flow::{Flow, Route};
use std::num::NonZeroUsize;

/// Choose which workers run the steps whose definition names no queue: rules for all namespaces, of which the first that fits decides
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Where no rule fits a step goes to the queue `steps`. Rules are asked when a step becomes ready: what is ready already stays
where it is, so keep somebody at the old worker set until it is empty.

Examples:
  bugle flow route add 'pay-*' fast --priority 1    urgent steps (priority 0 and 1) of all namespaces that begin with pay-
  bugle flow route add '*' common                   everything else, as the last rule
  bugle flow route add billing slow --at 1          asked before the others
  bugle flow route                                  list them
  bugle flow route rm 2")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

/// What to do with the rules.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List them (the default)
    Ls,
    /// Add one
    Add(AddArgs),
    /// Remove one
    Rm {
        /// Its place in the list, from 1
        place: NonZeroUsize,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// A namespace, or a pattern in which * stands for anything
    pattern: String,
    /// The worker set: the queue that its workers serve
    queue: String,
    /// Only steps with this priority or a more urgent one, 0 (the most urgent) to 3
    #[arg(long, value_parser = clap::value_parser!(i16).range(0..=3))]
    priority: Option<i16>,
    /// Its place in the list, from 1 [default: the last]
    #[arg(long, value_name = "N")]
    at: Option<NonZeroUsize>,
}

pub(super) async fn run(args: &Args, flow: &Flow, output: Output) -> Result<Exit, Failure> {
    let routes = match &args.command {
        None | Some(Command::Ls) => flow.routes().await?,
        Some(Command::Add(add)) => {
            let route =
                Route { namespace: add.pattern.clone(), priority: add.priority, queue: add.queue.clone() };
            flow.change_routes(|mut routes| {
                let place = add.at.map_or(routes.len(), |at| routes.len().min(at.get() - 1));
                routes.insert(place, route);
                Ok(routes)
            })
            .await?
        }
        Some(Command::Rm { place }) => {
            let mut missing = None;
            let routes = flow
                .change_routes(|mut routes| {
                    if place.get() <= routes.len() {
                        routes.remove(place.get() - 1);
                    } else {
                        missing = Some(routes.len());
                    }
                    Ok(routes)
                })
                .await?;
            if let Some(there) = missing {
                return Err(Failure::nothing(format!(
                    "there is no rule {place}; there are {there}: list them with `bugle flow route`"
                )));
            }
            routes
        }
    };
    output.rows(&routes, || table(&routes))?;
    Ok(Exit::Ok)
}

fn table(routes: &[Route]) -> Table {
    let mut table = Table::new(&[
        ("rule", Align::Right),
        ("namespace", Align::Left),
        ("priority", Align::Left),
        ("worker set", Align::Left),
    ]);
    for (route, place) in routes.iter().zip(1..) {
        let priority = match route.priority {
            None => "any".to_owned(),
            Some(0) => "0".to_owned(),
            Some(priority) => format!("0 to {priority}"),
        };
        table.row([place.to_string(), route.namespace.clone(), priority, route.queue.clone()]);
    }
    table
}
