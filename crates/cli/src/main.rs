//! The `redeliver` program.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redeliver::{check, local, purge, redrive};

/// Delayed, jittered retries for SQS and Lambda, with nothing lost and every dead letter explained.
#[derive(Debug, Parser)]
#[command(name = "redeliver", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Local(Box<local::Arguments>),
    Check(check::Arguments),
    Redrive(Box<redrive::Arguments>),
    Purge(purge::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Local(arguments) => local::main(&arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Redrive(arguments) => redrive::main(&arguments),
        Command::Purge(arguments) => purge::main(&arguments),
    }
}
