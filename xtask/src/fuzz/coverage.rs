//! Coverage counters in our own crates: this program is Cargo's `RUSTC_WORKSPACE_WRAPPER` when it builds the fuzzer.
//!
//! What `cargo fuzz` does to all crates with RUSTFLAGS: the whole tree would be compiled once more for it, and our crates
//! are what is fuzzed. Cargo keeps what a wrapper has compiled apart from the rest.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::tools::{Failure, variable};

/// Set for this program as a wrapper.
const SWITCH: &str = "REDELIVER_FUZZ_COVERAGE";

/// LLVM's pass and what libFuzzer reads; optimised, since a fuzzer is as good as it is fast. The debug build's checks stay.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Copt-level=2",
];

/// Makes this program the wrapper of a Cargo command.
pub(super) fn switch_on(cargo: &mut Command) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(|error| Failure(format!("this program's path: {error}")))?;
    cargo.env("RUSTC_WORKSPACE_WRAPPER", own).env(SWITCH, "1");
    Ok(())
}

/// As the wrapper: compiles, which is all; `None` where this is an ordinary run.
pub(crate) fn compile() -> Option<ExitCode> {
    variable(SWITCH)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut command = Command::new(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    let of_ours = arguments
        .windows(2)
        .any(|pair| pair[0] == "--crate-name" && pair[1].to_string_lossy().starts_with("redeliver_"));
    command.args(&arguments).args(FLAGS.iter().filter(|_| of_ours));
    let succeeded = command.status().is_ok_and(|status| status.success());
    Some(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
