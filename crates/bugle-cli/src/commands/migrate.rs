//! `bugle migrate`: the schema.

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Align, Output, Table};
use crate::place::Place;
use bugle::pg::migrate::CORE;

/// The schema.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Apply what is missing
    ///
    /// Any number of processes may do this at once, and one that was killed can be run again.
    /// There is no way down: the way back is a backup.
    #[command(verbatim_doc_comment)]
    Up,
    /// List the migrations and when each was applied (exit code 4 when some are missing)
    Status,
    /// Print the whole schema as a script for psql; needs no database
    #[command(
        after_help = "Example:\n  bugle migrate sql --schema jobs | psql --single-transaction -v ON_ERROR_STOP=1 \"$DATABASE_URL\""
    )]
    Sql,
}

pub(crate) async fn up(global: &Global, place: &Place, output: Output) -> Result<Exit, Failure> {
    let pool = place.pool(2, global.allow_unsafe_database).await?;
    if global.no_migrate {
        CORE.verify(&pool, &global.schema).await?;
    }
    let applied = CORE.up(&pool, &global.schema).await?;
    if output.is_json() {
        output.json(&serde_json::json!({ "schema": global.schema.as_str(), "applied": applied }))?;
    } else if applied == 0 {
        output.line(&format!("schema {} is up to date", global.schema))?;
    } else {
        output.line(&format!("schema {}: {applied} migrations applied", global.schema))?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn status(global: &Global, place: &Place, output: Output) -> Result<Exit, Failure> {
    let pool = place.pool(2, true).await?;
    let files = CORE.status(&pool, &global.schema).await?;
    output.rows(&files, || {
        let mut table =
            Table::new(&[("version", Align::Right), ("name", Align::Left), ("applied", Align::Left)]);
        for file in &files {
            let applied = file.applied_at.map_or_else(|| "not yet".to_owned(), |at| output.moment(at));
            table.row([file.version.to_string(), file.name.clone(), applied]);
        }
        table
    })?;
    let missing = files.iter().any(|file| file.applied_at.is_none());
    Ok(if missing { Exit::Nothing } else { Exit::Ok })
}

pub(crate) fn sql(global: &Global, output: Output) -> Result<Exit, Failure> {
    output.text(&CORE.script(&global.schema))?;
    Ok(Exit::Ok)
}
