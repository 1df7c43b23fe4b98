//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod embedded;
mod endpoint;
mod input;
mod interrupt;
mod report;
mod run;
mod target;

use std::process::ExitCode;

pub(crate) use arguments::probability;
pub use arguments::{Arguments, StrategyName};
pub use input::{Input, RefusedLine};
pub use report::{Report, histogram};
pub use target::{Recorded, Target};

use run::Plan;
pub(crate) use run::progress_bar;

use crate::format::Format;
use crate::output::document;
use crate::tell;

/// Runs the loop and prints what came of it.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    let plan = arguments.output.check().and_then(|()| Plan::new(arguments)).map_err(Into::into);
    let report = plan.and_then(|plan| run(arguments, plan));
    report.and_then(|report| print(arguments, &report)).unwrap_or_else(|error| {
        tell::error(error);
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments, mut plan: Plan) -> Result<Report, Box<dyn std::error::Error>> {
    let mut output = plan.take_output();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments.endpoint_url {
        None => runtime.block_on(embedded::run(plan, &mut *output)),
        Some(url) => runtime.block_on(endpoint::run(plan, url, &mut *output)),
    }
}

fn print(arguments: &Arguments, report: &Report) -> Result<ExitCode, Box<dyn std::error::Error>> {
    arguments.output.write(&match arguments.format {
        Format::Table => report.table(),
        Format::Json => document("local", report),
    })?;
    let problems = report.problems();
    for problem in &problems {
        tell::error(problem);
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}
