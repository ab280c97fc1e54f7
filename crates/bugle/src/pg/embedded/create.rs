//! Making the database cluster.

use super::Error;
use super::binaries::Binaries;
use super::config;
use super::data_dir::{DataDir, random_name};
use super::error::At as _;
use super::lifeline::Lifeline;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a cluster is called while it is being made.
const UNFINISHED: &str = "data.new-";
/// How long an `initdb` whose files were removed may go on writing.
const INITDB_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Creates the cluster of `place`, complete with its role and database, or not at all.
///
/// It is made under another name and renamed when done, so that a Bugle killed in the middle leaves
/// nothing that looks finished. The name is new each time: an `initdb` that outlived its Bugle must
/// not write into its successor's work.
pub(super) fn create(place: &DataDir, binaries: &Binaries, lifeline: &mut Lifeline) -> Result<(), Error> {
    remove_unfinished(&place.dir)?;
    let unfinished = place.dir.join(format!("{UNFINISHED}{}", random_name::<4>()));

    let mut initdb = binaries.command(&place.account, "initdb");
    // The C locale sorts by bytes: it exists everywhere, and no system upgrade changes the order of
    // an index behind PostgreSQL's back.
    initdb.args(["--username=bugle", "--encoding=UTF8", "--locale=C", "--data-checksums"]);
    initdb.args(["--auth=scram-sha-256", "--no-instructions"]);
    initdb.arg("--pwfile").arg(place.password_file()).arg("--pgdata").arg(&unfinished);
    if place.ephemeral {
        initdb.arg("--no-sync");
    }
    run(place, initdb, "", lifeline)?;
    include_settings(&unfinished)?;

    // Single-user mode: no port, no password, and done before anybody can connect.
    run(place, single(place, binaries, &unfinished, "postgres"), "CREATE DATABASE bugle;\n", lifeline)?;
    let statistics = format!("CREATE EXTENSION {};\n", config::STATISTICS);
    if run(place, single(place, binaries, &unfinished, "bugle"), &statistics, lifeline).is_err() {
        tracing::warn!(
            bin_dir = %binaries.bin_dir.display(),
            "This PostgreSQL has no pg_stat_statements: there will be no statement statistics."
        );
    }

    fs::rename(&unfinished, &place.data).at("rename", &unfinished)?;
    File::open(&place.dir).and_then(|dir| dir.sync_all()).at("flush", &place.dir)
}

/// Removes what a killed Bugle left half done.
pub(super) fn remove_unfinished(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).at("read", dir)? {
        let entry = entry.at("read", dir)?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let path = entry.path();
            remove_while_written(&path).at("remove", &path)?;
        }
    }
    Ok(())
}

/// The initdb of a killed Bugle lives on for a moment: until it notices that its files are gone it may write new ones.
fn remove_while_written(path: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir_all(path) {
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && begun.elapsed() < INITDB_ENDS_WITHIN =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            ended => return ended,
        }
    }
}

/// Ours come last in `postgresql.conf`, but `ALTER SYSTEM` still has the last word.
fn include_settings(data: &Path) -> Result<(), Error> {
    let path = data.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(&path).at("open", &path)?;
    writeln!(file, "include_if_exists = '{}'", config::FILE).and_then(|()| file.sync_all()).at("write", &path)
}

fn single(place: &DataDir, binaries: &Binaries, data: &Path, database: &str) -> Command {
    let mut single = binaries.command(&place.account, "postgres");
    single.arg("--single").arg("-D").arg(data);
    // Without the first an ERROR is printed and the exit code is 0.
    single.args(["-c", "exit_on_error=true", "-c", "log_checkpoints=off", "-c", "shared_buffers=16MB"]);
    if place.ephemeral {
        single.args(["-c", "fsync=off"]);
    }
    single.arg(database);
    single
}

/// Runs one program to its end, under the lifeline.
fn run(place: &DataDir, mut command: Command, input: &str, lifeline: &mut Lifeline) -> Result<(), Error> {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().at("run", Path::new(&program))?;
    lifeline.watch(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()); // a program that ended early says why itself
    }
    let output = child.wait_with_output();
    lifeline.forget();
    let output = output.at("run", Path::new(&program))?;
    if output.status.success() {
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = output.status.to_string();
    }
    Err(Error::Create { dir: place.dir.clone(), output: said })
}
