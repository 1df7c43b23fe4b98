//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod setup;

use redeliver_aws::targets::OwnFunction;

use redeliver_local::{RunReport, Target, run_at_endpoint, run_in_memory};
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{ExitCode, Failure, Interrupted};
use redeliver_sim::LoopError;
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
    let run = match &arguments.endpoint_url {
        None => run_in_memory(setup, &bar, &mut *output).await,
        Some(url) => run_at_endpoint(setup, url, &bar, &mut *output).await,
    };
    match run {
        Ok(report) => print(arguments, &report),
        Err(error) if is_interrupt(&error) => {
            stderr::error(error);
            Ok(ExitCode::Interrupted)
        }
        Err(error) => Err(error),
    }
}

/// [`start_own_function`] until a signal comes.
async fn start_unless_interrupted(function: &OwnFunction) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        started = start_own_function(function) => Ok(started?),
        _ = signals.next() => Err(Interrupted("--exec had started").into()),
    }
}

/// True if a signal came before everything was sent.
fn is_interrupt(error: &Failure) -> bool {
    matches!(error.downcast_ref(), Some(LoopError::Interrupted { .. }))
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
    Ok(match problems[..] {
        _ if report.interrupted => ExitCode::Interrupted,
        [] => ExitCode::Done,
        _ => ExitCode::NotAllDone,
    })
}
