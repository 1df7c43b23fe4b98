//! `redeliver send`: sends a file of messages, by [`redeliver_operator::sending`].

mod arguments;
mod problems;
mod run;

use std::process::ExitCode;

pub use arguments::Arguments;

use redeliver_operator::Failure;
use redeliver_operator::sending::Summary;

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
