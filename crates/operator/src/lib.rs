//! Shared by the operator's commands and the console: the options that name queues and files, the state of a
//! deployment's queues, and what both show of it.
//!
//! [`queues`] finds queues and talks to AWS about them. [`status`] says what waits, who reads and whether the target
//! is down, [`pause`] stops and starts the readers, [`preflight`] checks before a deployment, [`fleet`] judges the
//! account's DLQs. [`audit`] reads dead letters, [`redrive`] sends them back, [`purge`] deletes them; [`unblock`]
//! decides on blocked groups; [`sending`] sends a file of messages. [`dead_letter_source`] is a DLQ or a file,
//! [`dead_letter`] shows one message, [`diff`] what differs between two texts. [`permissions`] has the rights of each
//! command. Output goes to the [`terminal`] or becomes a page ([`markup`]).

pub mod archive;
pub mod audit;
mod aws_console;
pub mod backup_place;
pub mod check;
pub mod dead_letter;
pub mod dead_letter_source;
pub mod diff;
mod failure;
pub mod file_journals;
pub mod files;
pub mod fleet;
pub mod http_server;
pub mod log_lines;
pub mod markup;
pub mod message_file;
pub mod next_command;
pub mod own_function;
pub mod pause;
pub mod permissions;
pub mod plain_args;
pub mod preflight;
pub mod purge;
pub mod queues;
pub mod redrive;
pub mod sending;
pub mod sentences;
pub mod status;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod trace_url;
pub mod unblock;

pub use failure::{Interrupted, UsageError, exit_code_of};
pub use redeliver_dead_letters::ExitCode;

/// The error of a command or a page, as a sentence.
pub type CommandFailure = Box<dyn std::error::Error + Send + Sync>;
