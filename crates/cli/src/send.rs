//! `redeliver send`: producers' helper. Lines are read and checked ([`reader::Rules`]), cut into batches, sent, and recorded in a
//! [`journal::Journal`] as they are confirmed, so that a second run goes on where the first one ended.

mod arguments;
mod batches;
mod confirmed;
mod journal;
mod pace;
mod reader;
mod run;
mod sender;
mod summary;

use std::process::ExitCode;

pub use arguments::Arguments;
use summary::Summary;

use crate::format::Format;
use crate::output::document;
use crate::tell;

/// Sends the file and prints what came of it.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let sent = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run::run(arguments)));
    sent.and_then(|summary| print(arguments, &summary)).unwrap_or_else(|error| {
        tell::error(error);
        ExitCode::from(2)
    })
}

fn print(arguments: &Arguments, summary: &Summary) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let applied = arguments.applying.is_wanted();
    arguments.output.write(&match arguments.format {
        Format::Table => summary.table(applied),
        Format::Json => document("send", summary),
    })?;
    if !applied && summary.planned > 0 {
        arguments.applying.remark_that_nothing_was_done();
    }
    Ok(ExitCode::from(summary.exit_code()))
}

#[cfg(test)]
mod tests;
