//! `bugle completions`: what the shell needs to complete commands and options.

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bugle completions bash > /etc/bash_completion.d/bugle
  bugle completions zsh > \"${fpath[1]}/_bugle\"
  bugle completions fish > ~/.config/fish/completions/bugle.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bugle", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
