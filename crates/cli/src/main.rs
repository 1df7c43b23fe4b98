//! The `redeliver` program.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redeliver::{check, local, send};

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
    Send(Box<send::Arguments>),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Local(arguments) => local::main(&arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Send(arguments) => send::main(&arguments),
    }
}
