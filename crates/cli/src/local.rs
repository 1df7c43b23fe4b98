//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod embedded;
mod endpoint;
mod feed;
mod input;
mod report;
mod run;
mod setup;
mod target;

use std::process::ExitCode;

pub use arguments::Arguments;
pub(crate) use arguments::{command, probability, strategies};
pub use input::{Input, RefusedLine};
pub use report::{Report, histogram};
pub use target::{Recorded, Target};

use redeliver_aws::targets::OwnFunction;
pub(crate) use run::progress_bar;
use setup::Setup;

use crate::{Failure, tell};

/// Runs the loop and prints what came of it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let (setup, mut output) = Setup::of(arguments)?;
    if let Target::OwnFunction(function) = &setup.target {
        begin(function).await?;
    }
    let report = match &arguments.endpoint_url {
        None => embedded::run(setup, &mut *output).await?,
        Some(url) => endpoint::run(setup, url, &mut *output).await?,
    };
    print(arguments, &report)
}

/// A function that cannot begin would fail all messages.
///
/// # Errors
/// Why it cannot.
pub(crate) async fn begin(function: &OwnFunction) -> Result<(), String> {
    let began = function.runtime.begin().await.map_err(|error| format!("--exec cannot be run: {error}"))?;
    began.map_err(|ended| format!("--exec ended at its start: {}", ended.how()))
}

fn print(arguments: &Arguments, report: &Report) -> Result<ExitCode, Failure> {
    arguments.printing.print("local", report, || report.table())?;
    if let Some(hint) = report.hint() {
        tell::warning(hint);
    }
    let problems = report.problems();
    for problem in &problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}
