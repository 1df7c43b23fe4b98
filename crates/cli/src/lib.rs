//! The commands of the `redeliver` program, each with its arguments and its exit codes.

pub mod check;
mod files;
pub mod local;
