//! `redeliver fleet`: every dead-letter queue of an account, and what is wrong with it.
//!
//! Three steps: [`gather`] asks AWS, [`judge`] says what the answers mean, without effects, and [`table`] and [`html`]
//! print that.

mod arguments;
mod facts;
mod gather;
mod html;
mod judge;
mod report;
mod table;

use std::process::ExitCode;

use chrono::SubsecRound as _;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

pub use arguments::{Arguments, Format};
use report::Fleet;

use crate::output::document;
use crate::people::counted;
use crate::{Failure, tell};

/// Problems that are said on standard error; JSON has all of them.
const PROBLEMS_MAX: usize = 10;

/// Looks and prints what is seen.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.output.check()?;
    let bar = tell::progress(ProgressBar::new(0), "{bar:40} {human_pos}/{human_len} queues read, {elapsed}");
    let now = SystemClock.now().trunc_subsecs(0);
    let fleet = gather::look(&arguments.connections(), now, &bar).await;
    bar.finish_and_clear();
    if fleet.regions.is_empty() {
        return Err(fleet.problems.join("\n").into());
    }
    arguments.output.write(&match arguments.format {
        Format::Table => table::of(&fleet),
        Format::Json => document("fleet", &fleet),
        Format::Html => html::of(&fleet),
    })?;
    tell_problems(&fleet.problems);
    Ok(exit_code(&fleet))
}

fn tell_problems(problems: &[String]) {
    for problem in problems.iter().take(PROBLEMS_MAX) {
        tell::error(problem);
    }
    if let Some(more) = problems.len().checked_sub(PROBLEMS_MAX).filter(|more| *more > 0) {
        tell::error(format_args!("and {} more: see --format json", counted(more as u64, "problem")));
    }
}

/// As documented in `--help`.
fn exit_code(fleet: &Fleet) -> ExitCode {
    ExitCode::from(match (fleet.problems.is_empty(), fleet.is_well()) {
        (false, _) => 1,
        (true, true) => 0,
        (true, false) => 3,
    })
}

#[cfg(test)]
mod tests;
