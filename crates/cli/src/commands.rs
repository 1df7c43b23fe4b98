//! The operator's commands: each file has the options, the exit codes and the output of one.

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

/// Parses a command line that is to be copied, as the program does.
#[cfg(test)]
pub(crate) fn parse_command_line<W: Into<std::ffi::OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> crate::CliCommand {
    <crate::Arguments as clap::Parser>::try_parse_from(words).unwrap().command
}
