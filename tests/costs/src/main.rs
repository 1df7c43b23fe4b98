//! `costs`: what one message costs in the core, from its received body to the body that is sent again, in instructions.
//!
//! - `costs count CASE TIMES` does one thing so many times, for whoever counts the instructions within [`counted`]: that
//!   is callgrind, in `cargo xtask test`.
//! - `costs hostile` reads each hostile message and prints the milliseconds it takes; `costs hostile CASE` reads one, to
//!   be counted.
//!
//! It is built as the bundle is, so it depends on nothing but the core: Criterion is for the benchmark alone.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use redeliver_core::message::ReceivedMessage;
use redeliver_costs::hostile;
use redeliver_costs::workload::{self, Case, Operation, Workload};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "count", case, times] => count(case, times),
        [_, "hostile"] => time_hostile(),
        [_, "hostile", case] => count_hostile(case),
        _ => {
            eprintln!("usage: costs count CASE TIMES | costs hostile [CASE]");
            ExitCode::from(2)
        }
    }
}

fn count(case: &str, times: &str) -> ExitCode {
    let workload = Workload::default();
    let cases = workload.cases();
    let (Some(case), Ok(times)) = (cases.iter().find(|known| known.name == case), times.parse::<u32>())
    else {
        eprintln!("usage: costs count CASE TIMES; the cases are");
        cases.iter().for_each(|case| eprintln!("  {}", case.name));
        return ExitCode::from(2);
    };
    run(&workload, case, case.record.clone()); // what is only done the first time is not counted
    for _ in 0..times {
        counted(&workload, case, black_box(case.record.clone()));
    }
    ExitCode::SUCCESS
}

/// What is counted has a name of its own, that callgrind can find. What is made is dropped within it, as it is in a
/// function.
#[inline(never)]
fn counted(workload: &Workload, case: &Case, record: ReceivedMessage) {
    run(workload, case, record);
}

fn run(workload: &Workload, case: &Case, record: ReceivedMessage) {
    match case.operation {
        Operation::Skim => _ = black_box(workload::skim(&record.body)),
        Operation::Resend => drop(black_box(workload.resend(record))),
        Operation::ResendByDataSchema => drop(black_box(workload.resend_by_data_schema(record))),
    }
}

/// The best of some runs, each with its name.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures time and prints it")]
fn time_hostile() -> ExitCode {
    for case in hostile::cases() {
        let message = case.message();
        let runs = (0..5).map(|_| {
            let start = Instant::now();
            message.read();
            start.elapsed().as_secs_f64() * 1e3
        });
        println!("{:.1}\t{}", runs.fold(f64::INFINITY, f64::min), case.name);
    }
    ExitCode::SUCCESS
}

fn count_hostile(name: &str) -> ExitCode {
    let Some(case) = hostile::cases().into_iter().find(|case| case.name == name) else {
        eprintln!("no hostile case is named {name}");
        return ExitCode::from(2);
    };
    counted_hostile(&case.message());
    ExitCode::SUCCESS
}

/// As [`counted`].
#[inline(never)]
fn counted_hostile(message: &hostile::Message) {
    message.read();
}
