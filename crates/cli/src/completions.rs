//! `redeliver completions`: what the shell needs to complete this program's commands, options and file names.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::Failure;

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
  2  bad usage, or standard output cannot be written")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`, which is the whole program's.
pub fn main(arguments: &Arguments, command: Command) -> Result<ExitCode, Failure> {
    match io::stdout().write_all(&script(arguments.shell, command)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}").into())
        }
        // Whoever has read enough, as `head` does, has got what they wanted.
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    script
}
