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

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

pub use arguments::Arguments;
pub(crate) use arguments::{command, probability, strategies};
pub use input::{Input, RefusedLine};
pub use report::{Report, histogram};
pub use target::{Recorded, Target};

use redeliver_aws::targets::OwnFunction;
pub(crate) use run::progress_bar;
use setup::Setup;

use tokio::time::timeout;

use crate::signals::Signals;
use crate::{Failure, tell};

/// Runs the loop and prints what came of it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let (setup, mut output) = Setup::of(arguments)?;
    if let Target::OwnFunction(function) = &setup.target {
        begin_unless_interrupted(function).await?;
    }
    let report = match &arguments.endpoint_url {
        None => embedded::run(setup, &mut *output).await?,
        Some(url) => endpoint::run(setup, url, &mut *output).await?,
    };
    print(arguments, &report)
}

/// A function that has asked for no invocation by then may be none.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the function of `--exec` has begun: one that cannot would fail all messages.
///
/// # Errors
/// Why it cannot.
pub(crate) async fn begin(function: &OwnFunction) -> Result<(), String> {
    let mut begins = pin!(function.runtime.begin());
    let began = match timeout(BEGIN_PATIENCE, &mut begins).await {
        Ok(began) => began,
        Err(_) => {
            tell::warning(
                "--exec has asked for no invocation in 10 s: its command must start a runtime for Lambda, such as \
                 `python3 -m awslambdaric app.handler`",
            );
            begins.await
        }
    };
    let ended =
        began.map_err(|error| format!("--exec cannot be run: {}: {error}", function.runtime.program()))?;
    ended.map_err(|ended| format!("--exec ended at its start: {}", ended.how()))
}

/// The same until a signal comes.
async fn begin_unless_interrupted(function: &OwnFunction) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        began = begin(function) => Ok(began?),
        _ = signals.next() => Err("interrupted before --exec had begun".into()),
    }
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
