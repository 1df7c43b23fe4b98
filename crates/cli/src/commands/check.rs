//! `redeliver check`: finds errors in a message file, a policy file or a data schema before anything is deployed.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use redeliver_core::decide::backoff::bounds;
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::policy::{Backoff, Jitter, Policy, PolicyError};
use redeliver_operator::Failure;
use redeliver_operator::files::{FileError, read_schema, read_text};
use redeliver_operator::message_file::{Form, SeenIds, named, open, unreadable};
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::terminal::escape::{escaped, escaped_lines};
use redeliver_operator::terminal::output::Output;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::counted;

/// Check messages, a retry policy or a data schema, and name the JSON Pointer and rule of each violation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver check examples/messages.jsonl
  redeliver check orders.jsonl --data-schema order.schema.json
  redeliver check events.jsonl --plain --message-id-pointer /detail/id
  redeliver check --policy policy.json

Exit codes:
  0  all valid
  1  violations were found
  2  bad usage or an unreadable file")]
#[command(group = ArgGroup::new("checked").required(true).multiple(true).args(["messages", "policy", "data_schema"]))]
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
    #[command(flatten)]
    plain: PlainArguments,
}

/// Checks the files and prints the findings.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let checked = check(arguments)?;
    let is_valid = checked.iter().all(|file| file.findings.is_empty());
    // Members of messages, and files, have names that others chose.
    Output::default().write(&escaped_lines(&checked.iter().map(Checked::lines).collect::<String>()))?;
    Ok(ExitCode::from(u8::from(!is_valid)))
}

/// A file and its findings.
struct Checked {
    name: PathBuf,
    /// `None` if the file is a policy or a schema.
    messages: Option<Counts>,
    findings: Vec<String>,
}

/// Messages of a file.
#[derive(Clone, Copy, Default)]
struct Counts {
    all: u64,
    plain: u64,
    /// Plain messages whose id is SQS's: no source has another.
    without_id: u64,
}

impl Counts {
    /// Counts plain messages and their ids, to show when a pointer points nowhere.
    fn of_plain(self) -> String {
        match self {
            Self { plain: 0, .. } => String::new(),
            Self { plain, without_id: 0, .. } => format!(" ({plain} plain)"),
            Self { plain, without_id, .. } => {
                format!(" ({plain} plain, {without_id} of them without an id of their own: SQS's is used)")
            }
        }
    }
}

impl Checked {
    fn whole(path: &Path, findings: impl IntoIterator<Item = impl Display>) -> Self {
        let findings = findings.into_iter().map(|finding| format!("{}: {finding}", path.display())).collect();
        Self { name: path.to_owned(), messages: None, findings }
    }

    /// A line for each finding, or one line about a valid file.
    fn lines(&self) -> String {
        let name = self.name.display();
        match self.messages {
            _ if !self.findings.is_empty() => {
                self.findings.iter().map(|finding| escaped(finding) + "\n").collect()
            }
            None => format!("{name}: valid\n"),
            Some(Counts { all: 0, .. }) => format!("{name}: 0 messages\n"),
            Some(counts) => {
                format!("{name}: {}, valid{}\n", counted(counts.all, "message"), counts.of_plain())
            }
        }
    }
}

fn check(arguments: &Arguments) -> Result<Vec<Checked>, FileError> {
    let mut checked = Vec::new();
    if let Some(path) = &arguments.policy {
        checked.push(check_policy(path, &read_text(path)?));
    }
    let mut schema_is_valid = true;
    if let Some(path) = &arguments.data_schema {
        let error = DataSchema::new(&read_text(path)?).err();
        schema_is_valid = error.is_none();
        checked.push(Checked::whole(path, error));
    }
    if let Some(path) = arguments.messages.as_deref().filter(|_| schema_is_valid) {
        let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
        checked.push(check_messages(path, schema)?);
    }
    Ok(checked)
}

fn check_policy(path: &Path, text: &str) -> Checked {
    match Policy::from_json(text) {
        Ok(policy) => {
            remark_on(path, &policy);
            Checked::whole(path, None::<String>)
        }
        Err(PolicyError::Refused(violations)) => Checked::whole(path, &violations),
        Err(error) => Checked::whole(path, [format_args!("the retry policy {error}")]),
    }
}

/// Says what a valid policy means and its author may not have meant.
pub(crate) fn remark_on(path: &Path, policy: &Policy) {
    if let Some(sentence) = no_retry(policy) {
        stderr::warning(format_args!("{}: {sentence}", path.display()));
    }
    if let Some(sentence) = full_jitter(policy) {
        stderr::remark(format_args!("{}: {sentence}", path.display()));
    }
}

/// The remark on a policy that reads as if its delays were exact.
fn full_jitter(policy: &Policy) -> Option<String> {
    let (Backoff::Fixed { jitter, .. } | Backoff::Schedule { jitter, .. }) = &policy.backoff else {
        return None;
    };
    let (first, last) = bounds(policy, 1).into_inner();
    let (first, last) = (first.get(), last.get());
    (*jitter == Jitter::Full && policy.max_attempts > 0).then(|| {
        format!(
            "with full jitter, the default, the first retry comes after {first} to {last} s; \"jitter\": \"none\" makes it \
             {last} s"
        )
    })
}

/// The warning if messages are too old before their first retry is due.
fn no_retry(policy: &Policy) -> Option<String> {
    let age = policy.max_age_seconds.filter(|_| policy.max_attempts > 0)?;
    let first = u32::from(bounds(policy, 1).start().get());
    (first > age).then(|| {
        format!(
            "the first retry comes after {first} s at the earliest, but max_age_seconds is {age}: no retry is ever made"
        )
    })
}

fn check_messages(path: &Path, schema: MessageSchema) -> Result<Checked, FileError> {
    let name = named(path);
    let form = Form::Body(Box::new(schema));
    let (mut findings, mut counts, mut seen) = (Vec::new(), Counts::default(), SeenIds::default());
    for line in form.lines(open(path)?) {
        let line = line.map_err(|error| unreadable(path, &error))?;
        let number = line.number;
        counts.all += 1;
        match form.read(line) {
            Ok(message) => {
                counts.plain += u64::from(message.is_plain);
                counts.without_id += u64::from(message.id.is_none());
                if let Some(warning) = seen.see(number, &message) {
                    stderr::warning(format_args!("{}:{number}: {warning}", name.display()));
                }
            }
            Err(found) => {
                let at_line = |finding| format!("{}:{number}: {finding}", name.display());
                findings.extend(found.into_iter().map(at_line));
            }
        }
    }
    for warning in seen.rest() {
        stderr::warning(format_args!("{}: {warning}", name.display()));
    }
    Ok(Checked { name, messages: Some(counts), findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_whose_first_retry_comes_too_late_makes_none() {
        let no_retry = |age: u32, delay: u32| {
            let backoff = format!(r#"{{"kind":"fixed","delay_seconds":{delay},"jitter":"none"}}"#);
            no_retry(
                &Policy::from_json(&format!(r#"{{"max_age_seconds":{age},"backoff":{backoff}}}"#)).unwrap(),
            )
        };
        assert_eq!(
            no_retry(60, 600).unwrap(),
            "the first retry comes after 600 s at the earliest, but max_age_seconds is 60: no retry is ever made"
        );
        assert_eq!((no_retry(600, 600), no_retry(601, 600)), (None, None));
        let none_wanted = r#"{"max_attempts":0,"max_age_seconds":60}"#;
        assert_eq!(super::no_retry(&Policy::from_json(none_wanted).unwrap()), None);
    }
    #[test]
    fn delays_that_read_as_exact_and_are_spread_are_told() {
        let told = |backoff: &str| {
            full_jitter(&Policy::from_json(&format!(r#"{{"backoff":{{{backoff}}}}}"#)).unwrap())
        };
        assert_eq!(
            told(r#""kind":"fixed","delay_seconds":30"#).unwrap(),
            "with full jitter, the default, the first retry comes after 0 to 30 s; \"jitter\": \"none\" makes it 30 s"
        );
        assert!(told(r#""kind":"schedule","delays_seconds":[5,60]"#).unwrap().contains("after 0 to 5 s;"));
        assert_eq!(told(r#""kind":"fixed","delay_seconds":30,"jitter":"none""#), None);
        assert_eq!(told(r#""kind":"uniform""#), None);
    }
}
