//! `redeliver check`: what is wrong with a message file, a policy file or a data schema, before anything is deployed.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::policy::{Policy, PolicyError};
use redeliver_core::schema::{DataSchema, Invalid, MessageSchema};

use crate::Failure;
use crate::files::{FileError, read_schema, read_text};
use crate::lines::{self, Lines};
use crate::output::Output;
use crate::text::escaped_lines;

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
    /// Messages: JSON Lines, one body a line, or one JSON document over several lines. `-` is standard input
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
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let findings = check(arguments)?;
    Output::default().write(&lines_of(&findings))?;
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

/// A line each.
fn lines_of(findings: &[String]) -> String {
    if findings.is_empty() {
        return "valid\n".to_owned();
    }
    // Members of messages have names that others chose.
    findings.iter().map(|finding| escaped_lines(finding) + "\n").collect()
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
        findings.extend(check_messages(path, &schema)?);
    }
    Ok(findings)
}

fn check_policy(path: &Path, text: &str) -> Vec<String> {
    match Policy::from_json(text) {
        Ok(_) => Vec::new(),
        Err(PolicyError::Refused(violations)) => {
            violations.iter().map(|violation| format!("{}: {violation}", path.display())).collect()
        }
        Err(error) => vec![format!("{}: the retry policy {error}", path.display())],
    }
}

/// Line by line, as `send` and `local` read them. A file of one JSON document over several lines is one message, as the
/// AWS CLI sends it with `--message-body file://…`.
fn check_messages(path: &Path, schema: &MessageSchema) -> Result<Vec<String>, FileError> {
    let mut bytes = Vec::new();
    lines::open(path)?.read_to_end(&mut bytes).map_err(|error| lines::unreadable(path, &error))?;
    let name = lines::named(path);
    if let Some(document) = one_document(&bytes) {
        return Ok(check_message(&name, 1, body_of(document), schema));
    }
    let mut findings = Vec::new();
    for line in Lines::new(&*bytes) {
        let line = line.map_err(|error| lines::unreadable(path, &error))?;
        // What `send` would refuse is no message, however valid its JSON is.
        findings.extend(check_message(&name, line.number, line.message(), schema));
    }
    Ok(findings)
}

fn check_message(
    path: &Path,
    line: usize,
    message: Result<OutgoingMessage, String>,
    schema: &MessageSchema,
) -> Vec<String> {
    let findings = match message.map(|message| schema.parse(&message.content().body).map(drop)) {
        Ok(Ok(())) => Vec::new(),
        Ok(Err(invalid)) => described(&invalid),
        Err(refused) => vec![refused],
    };
    findings.into_iter().map(|finding| format!("{}:{line}: {finding}", path.display())).collect()
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

/// The text, if it is one JSON document over several lines.
fn one_document(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    let several = text.lines().filter(|line| !line.trim().is_empty()).nth(1).is_some();
    (several && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()).then_some(text)
}

fn body_of(document: &str) -> Result<OutgoingMessage, String> {
    let body = document.trim_end_matches(['\r', '\n']).to_owned();
    OutgoingMessage::new(Content { body, ..Content::default() }).map_err(|refused| refused.to_string())
}
