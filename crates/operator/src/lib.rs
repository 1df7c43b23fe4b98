//! Code shared by the operator's commands and the console: the options that select queues and files, the state of a
//! deployment's queues, and how queues and dead letters are displayed.
//!
//! [`queues`] finds queues and connects to AWS. [`status`] reports waiting messages, consumers and the target's
//! outages. [`pause`] pauses and resumes the consumers, [`preflight`] runs the checks before a deployment, and
//! [`fleet`] checks the account's DLQs. [`audit`] reads dead letters, [`redrive`] sends them back, and [`purge`]
//! deletes them. [`unblock`] resolves blocked groups, and [`sending`] sends a file of messages. [`dead_letter_source`]
//! reads dead letters from a DLQ or a file, [`dead_letter`] displays one message, and [`diff`] compares two texts.
//! [`permissions`] lists the IAM permissions that each command needs. Output is written to the [`terminal`] or rendered
//! as a page ([`markup`]).

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

pub use failure::{InterruptedError, UsageError, failure_exit_code};
pub use redeliver_dead_letters::ExitCode;

/// The error that a command or a page returns. Its message is a sentence.
pub type CommandFailure = Box<dyn std::error::Error + Send + Sync>;
