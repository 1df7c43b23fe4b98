//! Runs libFuzzer on one target: `fuzz --target=NAME CORPUS…`. Built and started by `cargo xtask fuzz`.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use redeliver_fuzz::{FuzzTarget, TARGETS};

static TARGET: OnceLock<FuzzTarget> = OnceLock::new();

fuzz_target!(init: { TARGET.get_or_init(target_from_args) }, |bytes: &[u8]| {
    (TARGET.get_or_init(target_from_args).check)(bytes);
});

/// Returns the target named on the command line; libFuzzer ignores arguments that start with two hyphens.
fn target_from_args() -> FuzzTarget {
    let name = std::env::args().find_map(|argument| argument.strip_prefix("--target=").map(str::to_owned));
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|target| Some(target.name) == name.as_deref());
    *found.unwrap_or_else(|| panic!("unknown --target={name:?}; the targets are {}", known()))
}
