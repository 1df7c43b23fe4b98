//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod setup;

use std::process::ExitCode;

use redeliver_aws::targets::OwnFunction;

use redeliver_local::{RunReport, Target, run_at_endpoint, run_in_memory};
use redeliver_operator::Failure;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
use redeliver_worker::start_own_function;

use crate::commands::run_args::progress_bar;
pub use arguments::Arguments;
use setup::read_setup;

/// Runs the loop and prints its report.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let (setup, mut output) = read_setup(arguments)?;
    if let Target::OwnFunction(function) = &setup.target {
        start_unless_interrupted(function).await?;
    }
    let bar = progress_bar(0);
    let report = match &arguments.endpoint_url {
        None => run_in_memory(setup, &bar, &mut *output).await?,
        Some(url) => run_at_endpoint(setup, url, &bar, &mut *output).await?,
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
