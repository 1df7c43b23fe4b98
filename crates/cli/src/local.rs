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
pub(crate) use arguments::{probability, strategies};
pub use input::{Input, RefusedLine};
pub use report::{Report, histogram};
pub use target::{Recorded, Target};

pub(crate) use run::progress_bar;
use setup::Setup;

use crate::{Failure, tell};

/// Runs the loop and prints what came of it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let (setup, mut output) = Setup::of(arguments)?;
    let report = match &arguments.endpoint_url {
        None => embedded::run(setup, &mut *output).await?,
        Some(url) => endpoint::run(setup, url, &mut *output).await?,
    };
    print(arguments, &report)
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
