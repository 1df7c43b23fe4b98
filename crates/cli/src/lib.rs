//! The commands of the `redeliver` program, each with its arguments and its exit codes.

pub mod check;
pub mod connection;
pub mod dead_letters;
mod files;
pub mod format;
mod lines;
pub mod local;
pub mod send;
