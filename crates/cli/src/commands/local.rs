//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod embedded;
mod endpoint;
mod input;
mod producer;
mod report;
mod run;
mod setup;
mod target;

use std::process::ExitCode;

use redeliver_aws::targets::OwnFunction;

pub use arguments::Arguments;
use redeliver_operator::Failure;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
use redeliver_worker::start_own_function;
use report::RunReport;
use setup::Setup;
use target::Target;

/// Runs the loop and prints its report.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let (setup, mut output) = Setup::of(arguments)?;
    if let Target::OwnFunction(function) = &setup.target {
        start_unless_interrupted(function).await?;
    }
    let report = match &arguments.endpoint_url {
        None => embedded::run(setup, &mut *output).await?,
        Some(url) => endpoint::run(setup, url, &mut *output).await?,
    };
    print(arguments, &report)
}

/// [`start_own_function`] until a signal comes.
async fn start_unless_interrupted(function: &OwnFunction) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        started = start_own_function(function) => Ok(started?),
        _ = signals.next() => Err("interrupted before --exec had started".into()),
    }
}

fn print(arguments: &Arguments, report: &RunReport) -> Result<ExitCode, Failure> {
    arguments.printing.print("local", report, || report.table())?;
    if let Some(hint) = report.hint() {
        stderr::warning(hint);
    }
    let problems = report.problems();
    for problem in &problems {
        stderr::error(problem);
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}
