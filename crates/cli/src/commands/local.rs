//! `redeliver local`: the whole retry loop on this machine, in virtual time, or in real time on an SQS endpoint.

mod arguments;
mod setup;

use redeliver_local::{RunReport, run_locally};
use redeliver_operator::sentences::{count_invalid, describe_all_invalid};
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};
use redeliver_sim::LoopError;

use crate::commands::run_args::progress_bar;
pub use arguments::Arguments;
use setup::read_setup;

/// Runs the loop and prints its report.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let (setup, mut output) = read_setup(arguments)?;
    let endpoint_url = arguments.endpoint_url.as_deref();
    match run_locally(setup, endpoint_url, &progress_bar(0), &mut *output).await {
        Ok(report) => print_report(arguments, &report),
        Err(error) if is_interrupt(&error) => {
            stderr::error(error);
            Ok(ExitCode::Interrupted)
        }
        Err(error) => Err(error),
    }
}

/// True if a signal arrived before everything was sent.
fn is_interrupt(error: &CommandFailure) -> bool {
    matches!(error.downcast_ref(), Some(LoopError::Interrupted { .. }))
}

fn print_report(arguments: &Arguments, report: &RunReport) -> Result<ExitCode, CommandFailure> {
    arguments.printing.print_report("local", report, || report.format_table())?;
    [report.failure_hint(), report.success_hint()].iter().flatten().for_each(stderr::warning);
    let invalid = count_invalid(&report.dead_lettered);
    let all_invalid = describe_all_invalid(invalid, report.sent, "--plain (ENVELOPE=optional)");
    let all_invalid = all_invalid.filter(|_| !arguments.plain.plain);
    all_invalid.iter().for_each(stderr::error);
    let problems = report.problems();
    for problem in &problems {
        stderr::error(problem);
    }
    Ok(match problems[..] {
        _ if report.interrupted => ExitCode::Interrupted,
        [] if all_invalid.is_some() => ExitCode::ProblemsFound,
        [] => ExitCode::Done,
        _ => ExitCode::PartlyDone,
    })
}
