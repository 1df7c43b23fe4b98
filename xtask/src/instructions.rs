//! The cost of a retry, and of the worst known inputs for each parser, in instructions counted by callgrind. Unlike
//! time, the counts are the same in every run, so a test can enforce limits.

use std::path::Path;
use std::process::Command;

use crate::bundle::build_costs_program;
use crate::tools::{TaskFailure, command_output, map_in_parallel};

/// The limit for one retry of a 1 KiB message, from the received record to the re-sent message: 74,000 with rustc
/// 1.95.0, plus 10 %.
const RETRY_MAX: u64 = 81_400;
/// The limit for one hostile message, response or event: 133 ms on a 3 GHz core at two and a half instructions per
/// cycle. A message that takes a second on that core takes seven in a small function, and the other nine messages in
/// its batch are received again.
const HOSTILE_MAX: u64 = 1_000_000_000;
/// The option that counts only the functions in `tests/costs/src/main.rs` whose names end with `_counted`, including
/// their callees.
const COUNTED: &str = "--toggle-collect=costs::*_counted*";

/// Checks that instructions can be counted on this machine.
///
/// # Errors
/// The machine is unsuitable or a tool is missing: the error says what to do.
pub(crate) fn require_tools() -> Result<(), TaskFailure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(TaskFailure("the limits apply only to x86-64 Linux; run it there".to_owned()));
    }
    let version = command_output(Command::new("valgrind").arg("--version"));
    version.map(drop).map_err(|_| TaskFailure("install Valgrind (the command `valgrind`)".to_owned()))
}

/// Counts the instructions for each case, prints the counts, and compares them with the limits. For hostile inputs,
/// also prints the time on this machine.
///
/// # Errors
/// A case exceeds its limit.
pub(crate) fn check_counts() -> Result<(), TaskFailure> {
    let program = build_costs_program()?;
    let listed = command_output(Command::new(&program).arg("hostile"))?;
    let hostile = listed.lines().filter_map(|line| line.split_once('\t'));
    let mut cases = vec![(vec!["retry"], "", RETRY_MAX)];
    cases.extend(hostile.map(|(milliseconds, case)| (vec!["hostile", case], milliseconds, HOSTILE_MAX)));
    if cases.len() == 1 {
        return Err(TaskFailure("the program `costs` lists no hostile messages".to_owned()));
    }
    let counts = map_in_parallel(&cases, |(arguments, ..)| count_instructions(&program, arguments));
    let mut worse = Vec::new();
    println!("{:>12} {:>8}", "instructions", "ms");
    for ((arguments, milliseconds, limit), counted) in cases.into_iter().zip(counts) {
        let (counted, case) = (counted?, arguments.join(": "));
        println!("{counted:>12} {milliseconds:>8}  {case}");
        if counted > limit {
            worse.push(format!("{case}: {counted} instructions, more than {limit}"));
        }
    }
    if worse.is_empty() { Ok(()) } else { Err(TaskFailure(worse.join("\n"))) }
}

/// Counts the instructions in one run of the program with these arguments.
fn count_instructions(program: &Path, arguments: &[&str]) -> Result<u64, TaskFailure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED, "--log-fd=1"]);
    let report = command_output(valgrind.arg(program).args(arguments))?;
    let count = parse_instruction_count(&report).filter(|count| *count > 0);
    count.ok_or_else(|| TaskFailure(format!("callgrind counted nothing for {arguments:?}:\n{report}")))
}

/// Reads `==PID== Collected : 4665597`.
fn parse_instruction_count(report: &str) -> Option<u64> {
    let (_, count) = report.lines().find_map(|line| line.split_once("Collected : "))?;
    count.trim().parse().ok()
}
