//! `redeliver completions`: what the shell needs to complete this program's commands, options and file names.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use redeliver_operator::terminal::output::Output;
use redeliver_operator::{ExitCode, Failure};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver completions bash \\
    > ~/.local/share/bash-completion/completions/redeliver
  redeliver completions zsh > ~/.zfunc/_redeliver  # fpath+=~/.zfunc
  redeliver completions fish > ~/.config/fish/completions/redeliver.fish
  redeliver completions powershell >> $PROFILE
  redeliver completions elvish >> ~/.config/elvish/rc.elv

Exit codes:
  0  printed
  1  standard output cannot be written
  2  bad usage")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`, which is the whole program's.
pub fn main(arguments: &Arguments, mut command: Command) -> Result<ExitCode, Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    Output::default().write(&String::from_utf8(script)?)?;
    Ok(ExitCode::Done)
}
