//! `redeliver man`: the manual, one page a command, with the same text as `--help`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};

/// Write the manual pages, one a command, into a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver man ~/.local/share/man/man1
  redeliver man man1 && man man1/redeliver-send.1

The directory is made where it does not exist; pages of the same names are replaced.

Exit codes:
  0  written
  2  bad usage, or a page cannot be written")]
pub struct Arguments {
    /// Where to
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes the pages of `command`, which is the whole program's.
#[must_use]
pub fn main(arguments: &Arguments, command: Command) -> ExitCode {
    match write(&arguments.directory, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", arguments.directory.display());
            ExitCode::from(2)
        }
    }
}

fn write(directory: &Path, command: Command) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}
