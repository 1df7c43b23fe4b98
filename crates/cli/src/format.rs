//! How a command prints what it found.

use clap::ValueEnum;

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}
