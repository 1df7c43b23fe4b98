//! `redeliver check`: what is wrong with a message file, a policy file or a data schema, before anything is deployed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::policy::{Policy, PolicyError};
use redeliver_core::schema::{DataSchema, Invalid, MessageSchema};

use crate::files::{FileError, read_schema, read_text};
use crate::tell;

/// Check messages, a retry policy or a data schema, and name the JSON Pointer and rule of each violation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver check examples/messages.jsonl
  redeliver check orders.jsonl --data-schema order.schema.json
  redeliver check --policy policy.json

Exit codes:
  0  all valid
  1  violations were found
  2  bad usage or an unreadable file")]
#[group(required = true, multiple = true)]
pub struct Arguments {
    /// Messages: JSON Lines, one body a line, or a single JSON document
    #[arg(value_name = "FILE")]
    messages: Option<PathBuf>,
    /// A retry policy
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A JSON Schema for `data`; messages are checked against it, too
    #[arg(long, value_name = "FILE")]
    data_schema: Option<PathBuf>,
}

/// Checks what is given and prints what is found.
#[must_use]
#[expect(clippy::print_stdout, reason = "the findings are this command's output")]
pub fn main(arguments: &Arguments) -> ExitCode {
    match check(arguments) {
        Ok(findings) if findings.is_empty() => {
            println!("valid");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in findings {
                println!("{finding}");
            }
            ExitCode::from(1)
        }
        Err(error) => {
            tell::error(error);
            ExitCode::from(2)
        }
    }
}

fn check(arguments: &Arguments) -> Result<Vec<String>, FileError> {
    let mut findings = Vec::new();
    if let Some(path) = &arguments.policy {
        findings.extend(check_policy(path, &read_text(path)?));
    }
    let mut schema_is_valid = true;
    if let Some(path) = &arguments.data_schema
        && let Err(error) = DataSchema::new(&read_text(path)?)
    {
        schema_is_valid = false;
        findings.push(format!("{}: {error}", path.display()));
    }
    if let Some(path) = arguments.messages.as_deref().filter(|_| schema_is_valid) {
        let schema = read_schema(arguments.data_schema.as_deref())?;
        findings.extend(check_messages(path, &read_text(path)?, &schema));
    }
    Ok(findings)
}

fn check_policy(path: &Path, text: &str) -> Vec<String> {
    match Policy::from_json(text) {
        Ok(_) => Vec::new(),
        Err(PolicyError::Refused(violations)) => {
            violations.iter().map(|violation| format!("{}: {violation}", path.display())).collect()
        }
        Err(error @ PolicyError::NotJson(_)) => vec![format!("{}: {error}", path.display())],
    }
}

fn check_messages(path: &Path, text: &str, schema: &MessageSchema) -> Vec<String> {
    // A file that is one JSON document, over however many lines, is one message.
    let lines: Vec<_> = if is_one_document(text) { vec![text] } else { text.lines().collect() };
    let mut findings = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        // What `send` would refuse is no message, however valid its JSON is.
        if let Err(refused) = OutgoingMessage::new(Content { body: line.to_owned(), ..Content::default() }) {
            findings.push(format!("{place}: {refused}"));
        } else if let Err(invalid) = schema.parse(line) {
            findings.extend(described(&invalid).into_iter().map(|finding| format!("{place}: {finding}")));
        }
    }
    findings
}

/// Each violation with its code.
pub(crate) fn described(invalid: &Invalid) -> Vec<String> {
    match invalid {
        Invalid::Format(malformed) => vec![format!("INVALID_MESSAGE_FORMAT {malformed}")],
        Invalid::Schema(violations) => {
            violations.iter().map(|violation| format!("INVALID_MESSAGE_SCHEMA {violation}")).collect()
        }
    }
}

fn is_one_document(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}
