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
use maud::Markup;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

pub use arguments::{Arguments, Format};
pub(crate) use report::Fleet;

use crate::connection::Connection;
use crate::output::document;
use crate::people::counted;
use crate::{Failure, tell};

/// Problems that people are shown; JSON has all of them.
const PROBLEMS_MAX: usize = 10;

/// Looks and prints what is seen.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.output.check()?;
    let bar = tell::progress(ProgressBar::new(0), "{bar:40} {human_pos}/{human_len} queues read, {elapsed}");
    let now = SystemClock.now().trunc_subsecs(0);
    let fleet = gather::look(&arguments.connections(), now, &bar).await;
    bar.finish_and_clear();
    if fleet.regions.is_empty() {
        return Err(in_short(&fleet.problems).join("\n").into());
    }
    arguments.output.write(&match arguments.format {
        Format::Table => table::of(&fleet),
        Format::Json => document("fleet", &fleet),
        Format::Html => html::of(&fleet),
    })?;
    for problem in in_short(&fleet.problems) {
        tell::error(problem);
    }
    Ok(exit_code(&fleet))
}

pub(crate) const STYLE: &str = html::STYLE;

/// Every dead-letter queue that a connection leads to.
pub(crate) async fn look(connection: &Connection) -> Fleet {
    let now = SystemClock.now().trunc_subsecs(0);
    gather::look(std::slice::from_ref(connection), now, &ProgressBar::hidden()).await
}

/// For a page.
pub(crate) fn shown(fleet: &Fleet) -> Markup {
    html::content(fleet)
}

/// The first of them, and how many there are more.
fn in_short(problems: &[String]) -> Vec<String> {
    let more = problems.len().saturating_sub(PROBLEMS_MAX) as u64;
    let more = (more > 0).then(|| format!("and {} more: see --format json", counted(more, "problem")));
    problems.iter().take(PROBLEMS_MAX).cloned().chain(more).collect()
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
