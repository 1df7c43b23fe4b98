//! `redeliver completions`: shell completion scripts for this program's commands, options and file names.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::output::OutputArgs;
use redeliver_operator::{CommandFailure, ExitCode};

/// The closing text of the help for `completions`.
const CLOSING: HelpFooter = HelpFooter {
    command: "completions",
    page: "install",
    examples: &[
        "redeliver completions bash \\\n> ~/.local/share/bash-completion/completions/redeliver",
        "redeliver completions zsh > ~/.zfunc/_redeliver  # fpath+=~/.zfunc",
        "redeliver completions fish > ~/.config/fish/completions/redeliver.fish",
        "redeliver completions powershell >> $PROFILE",
        "redeliver completions elvish >> ~/.config/elvish/rc.elv",
    ],
    notes: &[],
    exit_codes: &[
        (ExitCode::Done, "", "The script is printed."),
        (ExitCode::Failed, "", "Standard output cannot be written."),
        (ExitCode::Usage, "", ""),
    ],
};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script; `command` is the complete program.
pub fn main(arguments: &Arguments, mut command: Command) -> Result<ExitCode, CommandFailure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    OutputArgs::default().write_text(&String::from_utf8(script)?)?;
    Ok(ExitCode::Done)
}
