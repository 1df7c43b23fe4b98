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

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

pub use arguments::Arguments;
pub(crate) use arguments::{command, probability, strategies};
pub(crate) use run::progress_bar;

use redeliver_aws::targets::OwnFunction;
use tokio::time::timeout;

use redeliver_operator::Failure;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
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

/// Without a request for an invocation by then, the command may not be a Lambda runtime.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the function of `--exec` has started: otherwise all messages would fail.
///
/// # Errors
/// The reason why it cannot start.
pub(crate) async fn start_function(function: &OwnFunction) -> Result<(), String> {
    let mut starting = pin!(function.runtime.begin());
    let started = match timeout(START_PATIENCE, &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            stderr::warning(
                "--exec has not asked for an invocation for 10 s: its command must start a Lambda runtime, such as \
                 `python3 -m awslambdaric app.handler`",
            );
            starting.await
        }
    };
    let ended =
        started.map_err(|error| format!("--exec cannot be run: {}: {error}", function.runtime.program()))?;
    ended.map_err(|ended| format!("--exec ended at its start: {}", ended.how()))
}

/// [`start_function`] until a signal comes.
async fn start_unless_interrupted(function: &OwnFunction) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        started = start_function(function) => Ok(started?),
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
