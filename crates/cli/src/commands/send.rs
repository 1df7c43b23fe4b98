//! `redeliver send`: sends a file of messages. Lines are read and checked ([`reader::Rules`]), packed into batches,
//! sent, and recorded in a [`journal::Journal`] once they are confirmed, so that a second run continues where the first
//! one ended.

mod arguments;
mod batches;
mod confirmed;
mod journal;
mod pace;
mod problems;
mod reader;
mod run;
mod sender;
mod summary;

use std::process::ExitCode;

pub use arguments::Arguments;
use summary::Summary;

use redeliver_operator::Failure;

/// Sends the file and prints the outcome.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    print(arguments, &run::run(arguments).await?)
}

fn print(arguments: &Arguments, summary: &Summary) -> Result<ExitCode, Failure> {
    let applied = arguments.apply.is_wanted();
    arguments.printing.print("send", summary, || summary.table(applied))?;
    arguments.apply.remark_that_nothing_was_done(summary.planned > 0);
    Ok(ExitCode::from(summary.exit_code()))
}

#[cfg(test)]
mod tests;
