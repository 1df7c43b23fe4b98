//! The operator's commands, one file each: options, exit codes and output.

mod apply_args;
pub mod audit;
pub mod check;
pub mod completions;
mod exec;
pub mod fleet;
pub mod local;
pub mod man;
pub mod pause;
pub mod permissions;
pub mod preflight;
pub mod purge;
pub mod redrive;
mod run_args;
mod selection_args;
pub mod send;
pub mod simulate;
pub mod status;
pub mod unblock;
pub mod work;

/// Parses a suggested command line with the program's own parser.
#[cfg(test)]
pub(crate) fn parse_command_line<W: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> crate::CliCommand {
    <crate::Arguments as clap::Parser>::try_parse_from(words).unwrap().command
}
