//! Checks messages, retry policies and data schemas before a deployment, for `redeliver check`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use redeliver_core::decide::backoff::delay_bounds;
use redeliver_core::decide::{CallOutcome, call_outcome};
use redeliver_core::handler::{ErrorType, HandlerError};
use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::policy::{Backoff, Jitter, Policy, PolicyError};
use serde::Serialize;

use crate::files::FileError;
use crate::message_file::{
    LineFormat, SeenIds, input_error, input_name, is_dead_letter, open_input, remark_on_recognized_formats,
};
use crate::terminal::stderr;
use crate::terminal::units::{format_count, format_span};

/// A file and its findings.
#[derive(Debug, Serialize)]
pub struct FileCheck {
    pub name: PathBuf,
    /// `None` if the file is a policy or a schema.
    pub messages: Option<MessageCounts>,
    /// Empty if the file is valid. Only the first dead letter is a separate finding; the others are counted in one
    /// finding.
    pub findings: Vec<String>,
}

/// The message counts for a file.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MessageCounts {
    pub all: u64,
    pub invalid: u64,
    /// Invalid lines that are dead letters: no setting would make them valid.
    #[serde(skip)]
    pub dead_letters: u64,
    pub plain: u64,
    /// Plain messages that have no id except the SQS message id.
    pub without_id: u64,
}

impl FileCheck {
    fn for_file(path: &Path, findings: impl IntoIterator<Item = impl Display>) -> Self {
        let findings = findings.into_iter().map(|finding| format!("{}: {finding}", path.display())).collect();
        Self { name: path.to_owned(), messages: None, findings }
    }
}

/// Checks a retry policy. A valid but surprising policy causes warnings and remarks on standard error (see
/// [`remark_on_policy`]), but no findings.
pub fn check_policy(path: &Path, text: &str) -> FileCheck {
    match Policy::from_json(text) {
        Ok(policy) => {
            remark_on_policy(path, &policy);
            if let Some(sentence) = describe_thin_traffic(&policy) {
                stderr::remark(format_args!("{}: {sentence}", path.display()));
            }
            FileCheck::for_file(path, None::<String>)
        }
        Err(PolicyError::Refused(violations)) => FileCheck::for_file(path, &violations),
        Err(error) => FileCheck::for_file(path, [format_args!("the retry policy {error}")]),
    }
}

/// Checks a JSON Schema for the `data` of messages.
pub fn check_data_schema(path: &Path, text: &str) -> FileCheck {
    FileCheck::for_file(path, DataSchema::new(text).err())
}

/// Warns about properties of a valid policy that are easily overlooked: retries that never happen because of
/// `max_age_seconds`, and full jitter, the default.
pub fn remark_on_policy(path: &Path, policy: &Policy) {
    if let Some(sentence) = no_retry_warning(policy) {
        stderr::warning(format_args!("{}: {sentence}", path.display()));
    }
    if let Some(sentence) = full_jitter_remark(policy) {
        stderr::remark(format_args!("{}: {sentence}", path.display()));
    }
}

/// The number of messages whose first calls must fail before errors that might be a message's own fault count as
/// evidence of an outage (see `core::decide::breaker`).
const FIRST_FAILURES: u64 = 10;

/// The consequence of low traffic for a policy. `check` and `simulate` print it after the names of the errors.
pub const THIN_TRAFFIC: &str = "attempts until the first calls of ten messages have failed";

/// The remedy for low traffic.
pub const THIN_TRAFFIC_REMEDY: &str = "plan more or longer retries, or name the error in opens_on";

/// Errors that might be a message's own fault, unless a policy classifies them differently, and their names in remarks.
const FAULTS: [(ErrorType, &str); 3] = [
    (ErrorType::HttpStatus(500), "500s"),
    (ErrorType::Named("Http.Timeout"), "timeouts"),
    (ErrorType::Named("Lambda.FunctionError"), "function errors"),
];

/// Returns true if calls that fail with this error count as evidence of an outage, but spend attempts until there is
/// enough evidence. The policy's lists can classify the error as "not now" or permanent instead.
#[must_use]
pub fn needs_evidence(policy: &Policy, error_type: ErrorType) -> bool {
    call_outcome(policy, &HandlerError::transient(error_type, "")) == CallOutcome::Fault
}

/// Returns a remark on the minimum traffic at which the circuit opens in time.
fn describe_thin_traffic(policy: &Policy) -> Option<String> {
    let EvidenceTime { attempts_seconds, interval_seconds } = EvidenceTime::for_policy(policy)?;
    let faults = FAULTS.into_iter().filter(|(error_type, _)| needs_evidence(policy, error_type.clone()));
    let names: Vec<_> = faults.map(|(_, name)| name).collect();
    let (last, others) = names.split_last()?;
    let names =
        if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) };
    (interval_seconds > 0).then(|| {
        format!(
            "{names} spend {THIN_TRAFFIC}: with less than one message per {}, the attempts (about {} in all) run out \
             before the circuit opens; {THIN_TRAFFIC_REMEDY}",
            format_span(interval_seconds),
            format_span(attempts_seconds)
        )
    })
}

/// The time in which a policy's attempts can collect evidence of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceTime {
    /// The average time from the first call to the last retry.
    pub attempts_seconds: u64,
    /// The longest interval between messages at which the circuit opens before the attempts run out; 0 if less than a
    /// second.
    pub interval_seconds: u64,
}

impl EvidenceTime {
    /// Computes the time for a policy. Returns `None` if it is irrelevant, because the policy makes no retries or has
    /// no circuit breaker.
    #[must_use]
    pub fn for_policy(policy: &Policy) -> Option<Self> {
        policy
            .circuit_breaker
            .as_ref()
            .filter(|_| policy.max_attempts > 0 && no_retry_warning(policy).is_none())?;
        let bounds = (1..=policy.max_attempts).map(|attempt| delay_bounds(policy, attempt).into_inner());
        let twice = bounds.map(|(low, high)| u64::from(low.get()) + u64::from(high.get())).sum::<u64>();
        let attempts_seconds = (twice / 2).min(policy.max_age_seconds.map_or(u64::MAX, u64::from));
        Some(Self { attempts_seconds, interval_seconds: attempts_seconds / FIRST_FAILURES })
    }
}

/// Returns a remark on a policy with full jitter whose delays look exact.
fn full_jitter_remark(policy: &Policy) -> Option<String> {
    let (Backoff::Fixed { jitter, .. } | Backoff::Schedule { jitter, .. }) = &policy.backoff else {
        return None;
    };
    let (first, last) = delay_bounds(policy, 1).into_inner();
    let (first, last) = (first.get(), last.get());
    (*jitter == Jitter::Full && policy.max_attempts > 0).then(|| {
        format!(
            "with full jitter, the default, the first retry comes after {first} to {last} s; \"jitter\": \"none\" makes it \
             {last} s"
        )
    })
}

/// Returns a warning if messages exceed the maximum age before their first retry is due.
fn no_retry_warning(policy: &Policy) -> Option<String> {
    let age = policy.max_age_seconds.filter(|_| policy.max_attempts > 0)?;
    let first = u32::from(delay_bounds(policy, 1).start().get());
    (first > age).then(|| {
        format!(
            "the first retry comes after {first} s at the earliest, but max_age_seconds is {age}: no retry is ever made"
        )
    })
}

/// Checks the messages in a file, each line as `send` would. Repeated ids cause warnings on standard error, not
/// findings. Only the first dead letter is a separate finding.
///
/// # Errors
/// If the file cannot be read. Invalid lines are findings, not errors.
pub fn check_messages(path: &Path, schema: MessageSchema) -> Result<FileCheck, FileError> {
    let name = input_name(path);
    let form = LineFormat::Body(Box::new(schema));
    let (mut findings, mut counts, mut seen) = (Vec::new(), MessageCounts::default(), SeenIds::default());
    let mut unread_ids = 0_u64;
    let envelope_id = Pointer::new("/metadata/message_id").expect("the pointer is valid");
    let mut lines = form.read_lines(open_input(path)?);
    for line in lines.by_ref() {
        let line = line.map_err(|error| input_error(path, &error))?;
        let number = line.number;
        counts.all += 1;
        match form.read_message(line) {
            Ok(message) => {
                counts.plain += u64::from(message.is_plain);
                counts.without_id += u64::from(message.id.is_none());
                let body = &message.sendable.content().body;
                unread_ids += u64::from(message.id.is_none() && envelope_id.find_text(body).is_some());
                if let Some(warning) = seen.record_id(number, &message) {
                    stderr::warning(format_args!("{}:{number}: {warning}", name.display()));
                }
            }
            Err(found) => {
                counts.invalid += 1;
                if is_dead_letter(&found) {
                    counts.dead_letters += 1;
                    if counts.dead_letters > 1 {
                        continue; // repeating the same sentence for each line would hide the other findings
                    }
                }
                let at_line = |finding| format!("{}:{number}: {finding}", name.display());
                findings.extend(found.into_iter().map(at_line));
            }
        }
    }
    remark_on_recognized_formats(path, &lines);
    if counts.dead_letters > 1 {
        let more = format_count(counts.dead_letters - 1, "more line");
        let kind = if counts.dead_letters == 2 { "is a dead letter" } else { "are dead letters" };
        findings.push(format!("{}: {more} {kind}", name.display()));
    }
    if unread_ids > 0 {
        stderr::warning(format_args!(
            "{}: {} with a metadata.message_id that is not a UUID, and therefore plain; to use that id, set \
             --message-id-pointer /metadata/message_id (MESSAGE_ID_POINTER)",
            name.display(),
            format_count(unread_ids, "message")
        ));
    }
    for warning in seen.describe_rest() {
        stderr::warning(format_args!("{}: {warning}", name.display()));
    }
    Ok(FileCheck { name, messages: Some(counts), findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_dead_letter_is_described_and_the_others_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead.jsonl");
        let line = r#"{"body":"{}","attributes":{"ErrorType":"X"}}"#;
        let findings = |lines: usize| {
            let text = format!("{line}\n").repeat(lines) + "x\n";
            redeliver_dead_letters::files::replace_file(&path, text.as_bytes()).unwrap();
            let checked = check_messages(&path, MessageSchema::default()).unwrap();
            let name = path.display().to_string();
            let counts = checked.messages.unwrap();
            assert_eq!((counts.invalid, counts.dead_letters), (lines as u64 + 1, lines as u64));
            let without_name = |finding: &String| finding.strip_prefix(&name).unwrap().to_owned();
            checked.findings.iter().map(without_name).collect::<Vec<_>>()
        };
        let one = findings(1);
        assert!(one.len() == 2 && one[0].starts_with(":1: a dead letter, not a message: "), "{one:?}");
        let three = findings(3);
        assert_eq!((three.len(), &three[0], &*three[2]), (3, &one[0], ": 2 more lines are dead letters"));
        assert!(three[1].starts_with(":4: INVALID_MESSAGE_FORMAT "), "{three:?}");
        assert_eq!(findings(2)[2], ": 1 more line is a dead letter");
    }

    #[test]
    fn a_policy_whose_first_retry_is_due_too_late_never_retries() {
        let no_retry_warning = |age: u32, delay: u32| {
            let backoff = format!(r#"{{"kind":"fixed","delay_seconds":{delay},"jitter":"none"}}"#);
            no_retry_warning(
                &Policy::from_json(&format!(r#"{{"max_age_seconds":{age},"backoff":{backoff}}}"#)).unwrap(),
            )
        };
        assert_eq!(
            no_retry_warning(60, 600).unwrap(),
            "the first retry comes after 600 s at the earliest, but max_age_seconds is 60: no retry is ever made"
        );
        assert_eq!((no_retry_warning(600, 600), no_retry_warning(601, 600)), (None, None));
        let without_retries = r#"{"max_attempts":0,"max_age_seconds":60}"#;
        assert_eq!(super::no_retry_warning(&Policy::from_json(without_retries).unwrap()), None);
    }

    /// Users must be warned that an outage kills messages in a low-traffic queue that would survive in a busy queue.
    #[test]
    fn the_evidence_interval_is_a_tenth_of_the_time_for_all_attempts() {
        let evidence = |policy| {
            let evidence = EvidenceTime::for_policy(&Policy::from_json(policy).unwrap());
            evidence.map(|evidence| (evidence.attempts_seconds, evidence.interval_seconds))
        };
        // Five delays of 0 to 900 s.
        assert_eq!(evidence("{}"), Some((2250, 225)));
        assert_eq!(evidence(r#"{"max_age_seconds":600}"#), Some((600, 60)));
        assert_eq!(
            (evidence(r#"{"circuit_breaker":false}"#), evidence(r#"{"max_attempts":0}"#)),
            (None, None)
        );
    }

    #[test]
    fn only_errors_that_spend_attempts_are_named_with_a_remedy() {
        let remark = |policy| describe_thin_traffic(&Policy::from_json(policy).unwrap());
        assert_eq!(
            remark("{}").unwrap(),
            "500s, timeouts and function errors spend attempts until the first calls of ten messages have failed: with \
             less than one message per 3m 45s, the attempts (about 37m 30s in all) run out before the circuit opens; \
             plan more or longer retries, or name the error in opens_on"
        );
        let beginning = |policy| remark(policy).unwrap().split_once(" spend").unwrap().0.to_owned();
        assert_eq!(beginning(r#"{"non_retryable":["HttpStatus.5*"]}"#), "timeouts and function errors");
        assert_eq!(beginning(r#"{"retryable":["HttpStatus.*"]}"#), "500s");
        let not_now =
            r#"{"circuit_breaker":{"opens_on":["HttpStatus.500","Http.Timeout","Lambda.FunctionError"]}}"#;
        let quick = r#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":4,"jitter":"none"}}"#;
        assert_eq!((remark(not_now), remark(quick)), (None, None), "no such errors; an interval of 0");
    }

    #[test]
    fn full_jitter_on_seemingly_exact_delays_causes_a_remark() {
        let reported = |backoff: &str| {
            full_jitter_remark(&Policy::from_json(&format!(r#"{{"backoff":{{{backoff}}}}}"#)).unwrap())
        };
        assert_eq!(
            reported(r#""kind":"fixed","delay_seconds":30"#).unwrap(),
            "with full jitter, the default, the first retry comes after 0 to 30 s; \"jitter\": \"none\" makes it 30 s"
        );
        assert!(
            reported(r#""kind":"schedule","delays_seconds":[5,60]"#).unwrap().contains("after 0 to 5 s;")
        );
        assert_eq!(reported(r#""kind":"fixed","delay_seconds":30,"jitter":"none""#), None);
        assert_eq!(reported(r#""kind":"uniform""#), None);
    }
}
