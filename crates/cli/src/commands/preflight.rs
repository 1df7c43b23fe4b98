//! `redeliver preflight`: a look before a deployment.

use std::process::ExitCode;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use redeliver_operator::Failure;
use redeliver_operator::preflight::look;
use redeliver_operator::queues::Connection;
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::stderr;

/// Look before you deploy: a deployment may resume what `redeliver pause` has stopped.
///
/// It reads and changes nothing. `cargo xtask cdk deploy` runs it; run it yourself before any other update of a stack.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver preflight --stack redeliver-prod

A stack that is not deployed yet is not paused.

JSON: {schema, paused: [{queue, function, state}], problems}

Exit codes:
  0  nothing was found
  1  something could not be read; the rest is shown
  2  bad usage
  3  a deployment may resume something")]
pub struct Arguments {
    /// The stack that will be deployed
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    stack: String,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    connection: Connection,
}

/// Looks and prints what was found.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let found = look(&arguments.connection, &arguments.stack).await;
    arguments.printing.print("preflight", &found, || found.lines())?;
    for problem in &found.problems {
        stderr::warning(problem);
    }
    Ok(ExitCode::from(found.exit_code()))
}
