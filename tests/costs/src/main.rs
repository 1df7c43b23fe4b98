//! `costs`: the instructions that the core needs for one message, from its received body to the re-sent body.
//!
//! - `costs retry` performs one retry, so that callgrind, started by `cargo xtask test`, can count the instructions in
//!   [`resend_counted`].
//! - `costs hostile` runs each reader on its hostile inputs and prints the slowest, with its milliseconds;
//!   `costs hostile CASE` reads one input, so that its instructions can be counted.
//!
//! The package is built like the bundle, so it does not depend on the AWS SDK; only the benchmark uses Criterion.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use redeliver_core::message::ReceivedMessage;
use redeliver_costs::hostile;
use redeliver_costs::workload::{Operation, Workload};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "retry"] => run_retry(),
        [_, "hostile"] => time_hostile_cases(),
        [_, "hostile", case] => read_hostile_case(case),
        _ => {
            eprintln!("usage: costs retry | costs hostile [CASE]");
            ExitCode::from(2)
        }
    }
}

fn run_retry() -> ExitCode {
    let workload = Workload::default();
    let cases = workload.cases();
    let is_whole = |operation| matches!(operation, Operation::Resend);
    let case = cases.iter().find(|case| is_whole(case.operation)).expect("the workload has this case");
    drop(workload.resend(case.record.clone())); // one-time work is not counted
    resend_counted(&workload, black_box(case.record.clone()));
    ExitCode::SUCCESS
}

/// Resends the record. `cargo xtask test` counts the instructions of every function in this file whose name ends with
/// `_counted`. Values created here are also dropped here, as in the real function.
#[inline(never)]
fn resend_counted(workload: &Workload, record: ReceivedMessage) {
    drop(black_box(workload.resend(record)));
}

/// Prints each reader's slowest input, with the best time of several runs.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures time and prints it")]
fn time_hostile_cases() -> ExitCode {
    let cases = hostile::all_cases();
    for same_reader in cases.chunk_by(|one, next| one.message == next.message) {
        let timed = same_reader.iter().map(|case| {
            let reading = case.reading();
            let runs = (0..3).map(|_| {
                let start = Instant::now();
                reading.read();
                start.elapsed().as_secs_f64() * 1e3
            });
            (runs.fold(f64::INFINITY, f64::min), case.name())
        });
        if let Some((milliseconds, name)) = timed.max_by(|one, other| one.0.total_cmp(&other.0)) {
            println!("{milliseconds:.1}\t{name}");
        }
    }
    ExitCode::SUCCESS
}

fn read_hostile_case(name: &str) -> ExitCode {
    let Some(case) = hostile::all_cases().into_iter().find(|case| case.name() == name) else {
        eprintln!("no hostile case is named {name}");
        return ExitCode::from(2);
    };
    read_counted(&case.reading());
    ExitCode::SUCCESS
}

/// Reads the case. Counted like [`resend_counted`].
#[inline(never)]
fn read_counted(reading: &hostile::HostileReading) {
    reading.read();
}
