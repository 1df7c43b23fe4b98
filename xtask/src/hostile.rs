//! What the worst messages that we know cost the core. One that takes a second takes a small function seven, and the nine messages
//! beside it are received again for it.

use std::path::Path;
use std::process::Command;

use crate::bundle::bundle_costs;
use crate::instructions::{count, figures};
use crate::tools::{Failure, output, side_by_side};

/// Counts the instructions of each case, prints them beside its time on this machine, and compares with the limit.
pub(crate) fn check() -> Result<(), Failure> {
    let limit = figures()?.hostile_max;
    let program = bundle_costs()?;
    let mut worse = Vec::new();
    let cases = timed(&program)?;
    let counts = side_by_side(&cases, |(_, case)| count(&program, &["hostile", case]));
    for ((milliseconds, case), counted) in cases.into_iter().zip(counts) {
        let counted = counted?;
        let verdict = if counted > limit { "  MORE" } else { "" };
        println!("{counted:>12} {milliseconds:>8} ms  {case}{verdict}");
        if counted > limit {
            worse.push(case);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "a message takes more than {limit} instructions: {}; refuse it earlier, or read it in another way",
        worse.join("; ")
    )))
}

/// Time is no test, but it is what people know.
fn timed(program: &Path) -> Result<Vec<(String, String)>, Failure> {
    let cases = output(Command::new(program).arg("hostile"))?;
    let cases = cases.lines().filter_map(|line| line.split_once('\t'));
    let cases: Vec<_> = cases.map(|(time, case)| (time.to_owned(), case.to_owned())).collect();
    if cases.is_empty() { Err(Failure("the benchmark has no hostile cases".to_owned())) } else { Ok(cases) }
}
