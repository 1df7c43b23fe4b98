//! The checks of `redeliver check`: messages, retry policies and data schemas, before anything is deployed.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use redeliver_core::decide::backoff::bounds;
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::policy::{Backoff, Jitter, Policy, PolicyError};

use crate::files::FileError;
use crate::message_file::{Form, SeenIds, named, open, unreadable};
use crate::terminal::stderr;

/// A file and its findings.
#[derive(Debug)]
pub struct Checked {
    pub name: PathBuf,
    /// `None` if the file is a policy or a schema.
    pub messages: Option<Counts>,
    /// Empty if the file is valid.
    pub findings: Vec<String>,
}

/// Messages of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub all: u64,
    pub plain: u64,
    /// Plain messages whose id is SQS's: no source has another.
    pub without_id: u64,
}

impl Checked {
    fn whole(path: &Path, findings: impl IntoIterator<Item = impl Display>) -> Self {
        let findings = findings.into_iter().map(|finding| format!("{}: {finding}", path.display())).collect();
        Self { name: path.to_owned(), messages: None, findings }
    }
}

/// Checks a retry policy, and warns of what its author may not have meant.
pub fn check_policy(path: &Path, text: &str) -> Checked {
    match Policy::from_json(text) {
        Ok(policy) => {
            remark_on_policy(path, &policy);
            Checked::whole(path, None::<String>)
        }
        Err(PolicyError::Refused(violations)) => Checked::whole(path, &violations),
        Err(error) => Checked::whole(path, [format_args!("the retry policy {error}")]),
    }
}

/// Checks a schema of `data`.
pub fn check_data_schema(path: &Path, text: &str) -> Checked {
    Checked::whole(path, DataSchema::new(text).err())
}

/// Says what a valid policy means and its author may not have meant.
pub fn remark_on_policy(path: &Path, policy: &Policy) {
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

/// Checks the messages of a file, and warns of ids that several of them have.
pub fn check_messages(path: &Path, schema: MessageSchema) -> Result<Checked, FileError> {
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
