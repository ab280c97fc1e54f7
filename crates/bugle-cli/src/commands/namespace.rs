//! `bugle namespace`: making and listing namespaces.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::name::NamespaceName;

/// Making and listing namespaces.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the namespaces
    Ls,
    /// Make a namespace; other commands then work in it with --namespace NAME
    #[command(
        after_help = "Example:\n  bugle namespace create staging\n  bugle --namespace staging enqueue mail send_receipt"
    )]
    Create {
        /// Its name
        #[arg(value_parser = NamespaceName::parse)]
        name: NamespaceName,
    },
}

pub(crate) async fn run(command: &Command, place: &Place, output: Output) -> Result<Exit, Failure> {
    let bugle = place.bugle(2).await?;
    match command {
        Command::Ls => {
            let names = bugle.list_namespaces().await?;
            output.rows(&names, || {
                let mut table = Table::new(&[("namespace", Align::Left)]);
                for name in &names {
                    table.row([name.clone()]);
                }
                table
            })?;
            Ok(Exit::Ok)
        }
        Command::Create { name } => {
            let made = bugle.create_namespace(name).await?;
            let created = serde_json::json!({ "namespace": name.as_str(), "created": made });
            if output.is_json() {
                output.json(&created)?;
            } else {
                output.line(&if made {
                    format!("{name} created")
                } else {
                    format!("{name} was there already")
                })?;
            }
            Ok(if made { Exit::Ok } else { Exit::Nothing })
        }
    }
}
