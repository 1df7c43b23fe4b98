//! The requests to the emulators, checked against AWS's service models: `tests/support/aws_models.py` writes the
//! results to files, and `cargo xtask test` fails on a finding.

use std::path::PathBuf;

use crate::settings;

/// The environment variable that contains the path of an emulator's results file.
pub(crate) const VARIABLE: &str = "VALIDATED_REQUESTS";

/// Returns the path of an emulator's results file, in the folder that `cargo xtask test` empties and reads.
pub(crate) fn output_file(emulator: &str, port: u16) -> PathBuf {
    let directory = settings::target_dir().join("validated-requests");
    std::fs::create_dir_all(&directory).expect("the target directory is writable");
    directory.join(format!("{emulator}-{port}.jsonl"))
}
