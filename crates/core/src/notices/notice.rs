//! One notice, as a text for people and as a document for machines. It has no payload, no attribute's value and no text of
//! a target.

use serde::Serialize;
use strum::IntoStaticStr;

use crate::message::Timestamp;
use crate::message::metadata::rfc3339;

/// SNS's limit on a subject, which must be ASCII ("Publish", Amazon SNS API Reference).
pub const SUBJECT_CHARACTERS_MAX: usize = 100;

/// The occasion of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NoticeKind {
    /// The first death of a cause, or the first after it was quiet.
    Appeared,
    /// A day has passed since the last notice, and the cause lasts.
    Continues,
    /// No death for a day.
    Quiet,
}

/// The number of deaths in a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub number: u64,
    /// True if there may be more.
    pub is_minimum: bool,
}

impl Count {
    pub(super) fn exact(number: usize) -> Self {
        Self { number: number as u64, is_minimum: false }
    }
}

/// A notice about a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    /// The name of the final DLQ.
    pub deployment: String,
    /// The argument of the commands that show the dead letters.
    pub source: String,
    pub fingerprint: String,
    /// The reason's code, such as `RETRY_ATTEMPT_EXCEEDED`.
    pub error_type: String,
    /// The last error, if its name is one of ours, such as `HttpStatus.503`.
    pub last_error: Option<String>,
    /// Deaths since the last notice.
    pub count: Count,
    /// Time of the first death since the cause appeared.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// The error type, if it is a name of redeliver's own and not a target's text: `HttpStatus.503`.
#[must_use]
pub fn own_name(error_type: &str) -> Option<&str> {
    const NAMES: [&str; 20] = [
        "Http.Connect",
        "Http.NoCredentials",
        "Http.NotSigned",
        "Http.Timeout",
        "InvalidData",
        "Lambda.AccessDenied",
        "Lambda.Connect",
        "Lambda.EventAgeExceeded",
        "Lambda.FunctionError",
        "Lambda.InvalidRequestContent",
        "Lambda.InvalidTenantId",
        "Lambda.Kms",
        "Lambda.NotFound",
        "Lambda.RequestTooLarge",
        "Lambda.Service",
        "Lambda.Throttled",
        "Lambda.Timeout",
        "Panic",
        "Runtime.Exited",
        "Timeout",
    ];
    let is_status = |digits: &str| digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours =
        NAMES.contains(&error_type) || error_type.strip_prefix("HttpStatus.").is_some_and(is_status);
    is_ours.then_some(error_type)
}

/// The document for machines.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    kind: NoticeKind,
    deployment: &'a str,
    fingerprint: &'a str,
    error_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    count: u64,
    count_is_minimum: bool,
    first_at: String,
    last_at: String,
    command: String,
}

impl Notice {
    /// The command that shows the cause's dead letters.
    #[must_use]
    pub fn command(&self) -> String {
        let Self { source, fingerprint, first_at, .. } = self;
        match source.starts_with("s3://") {
            true => format!(
                "redeliver audit {source} --since {} --group {fingerprint}",
                first_at.format("%Y-%m-%d")
            ),
            false => format!("redeliver audit {source} --group {fingerprint}"),
        }
    }

    /// The document for machines: `redeliver.notice/1`. The number changes when the meaning of a member changes.
    #[must_use]
    pub fn document(&self) -> String {
        let document = Document {
            schema: "redeliver.notice/1",
            kind: self.kind,
            deployment: &self.deployment,
            fingerprint: &self.fingerprint,
            error_type: &self.error_type,
            last_error: self.last_error.as_deref(),
            count: self.count.number,
            count_is_minimum: self.count.is_minimum,
            first_at: rfc3339(self.first_at),
            last_at: rfc3339(self.last_at),
            command: self.command(),
        };
        serde_json::to_string(&document).expect("strings and numbers always serialise")
    }

    /// The line for people, in at most [`SUBJECT_CHARACTERS_MAX`] ASCII characters. Of a long one the deployment's name
    /// is cut.
    #[must_use]
    pub fn subject(&self) -> String {
        let what = match self.kind {
            NoticeKind::Appeared => "new dead letters",
            NoticeKind::Continues => "dead letters go on",
            NoticeKind::Quiet => "quiet for a day",
        };
        let rest = format!(": {what}: {}", self.error_in_words());
        let room = SUBJECT_CHARACTERS_MAX.saturating_sub(rest.len());
        let subject: String = self.deployment.chars().take(room).chain(rest.chars()).collect();
        subject
            .chars()
            .filter(|character| matches!(character, ' '..='~'))
            .take(SUBJECT_CHARACTERS_MAX)
            .collect()
    }

    /// The text for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { deployment, source, count: Count { number, is_minimum }, .. } = self;
        let count = if *is_minimum { format!("more than {number}") } else { number.to_string() };
        let letters = if *number == 1 && !is_minimum { "dead letter" } else { "dead letters" };
        let (first, last) = (minutes(self.first_at), minutes(self.last_at));
        let what = match self.kind {
            NoticeKind::Appeared => format!("{count} {letters} so far, the first at {first}."),
            NoticeKind::Continues => {
                format!("{count} {letters} since the last notice, the last at {last}. It began at {first}.")
            }
            NoticeKind::Quiet => format!("No dead letter for a day; the last one came at {last}."),
        };
        format!(
            "{deployment}: {}\n{what}\n\nSee them:\n  {}\n\nOr in the console:\n  redeliver console {source}\n\nCause: {}\n",
            self.error_in_words(),
            self.command(),
            self.fingerprint
        )
    }

    fn error_in_words(&self) -> String {
        match &self.last_error {
            Some(last_error) => format!("{} ({last_error})", self.error_type),
            None => self.error_type.clone(),
        }
    }
}

fn minutes(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}
