//! Notices, as text for people and as JSON documents for machines. They contain no payload, no attribute value and no
//! text from a target.

use serde::Serialize;

use crate::message::Timestamp;
use crate::message::metadata::format_rfc3339;
use crate::policy::status_without_code;

/// SNS's limit on a subject, which must be ASCII ("Publish", Amazon SNS API Reference).
pub const SUBJECT_CHARACTERS_MAX: usize = 100;

/// A notice about a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name of the final DLQ.
    pub deployment: String,
    /// The argument for commands that show the dead letters.
    pub source: String,
    /// The cause, as an argument to `redeliver audit --group`.
    pub fingerprint: String,
    /// The reason's code, such as `RETRY_ATTEMPT_EXCEEDED`.
    pub error_type: String,
    /// The last error, if its name is one of redeliver's own, such as `HttpStatus.503`.
    pub last_error: Option<String>,
    /// Number of deaths in this environment since its last notice about the cause; other environments may have recorded
    /// more.
    pub count: u64,
    /// Time of the first of these deaths.
    pub first_at: Timestamp,
    /// Time of the last of these deaths.
    pub last_at: Timestamp,
}

/// Returns the error type if it is one of redeliver's own names, such as `HttpStatus.503`, and `None` if it is text
/// from a target.
#[must_use]
pub fn own_error_name(error_type: &str) -> Option<&str> {
    const NAMES: [&str; 28] = [
        "Http.Connect",
        "Http.ConnectTimeout",
        "Http.Dns",
        "Http.InvalidResponse",
        "Http.NoCredentials",
        "Http.NotSigned",
        "Http.Proxy",
        "Http.Refused",
        "Http.Reset",
        "Http.Timeout",
        "Http.Tls",
        "InvalidData",
        "Lambda.AccessDenied",
        "Lambda.Connect",
        "Lambda.ConnectionLost",
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
    let name = status_without_code(error_type);
    let is_ours = NAMES.contains(&name) || name.strip_prefix("HttpStatus.").is_some_and(is_status);
    is_ours.then_some(name)
}

/// The JSON document for machines.
#[derive(Serialize)]
struct NoticeDocument<'a> {
    schema: &'static str,
    kind: &'static str,
    deployment: &'a str,
    fingerprint: &'a str,
    error_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    count: u64,
    first_at: String,
    last_at: String,
    command: String,
}

impl Notice {
    /// Returns the command that shows the cause's dead letters.
    #[must_use]
    pub fn audit_command(&self) -> String {
        let Self { source, fingerprint, first_at, .. } = self;
        match source.starts_with("s3://") {
            true => format!(
                "redeliver audit {source} --since {} --group {fingerprint}",
                first_at.format("%Y-%m-%d")
            ),
            false => format!("redeliver audit {source} --group {fingerprint}"),
        }
    }

    /// Returns the JSON document for machines, `redeliver.notice/1`. The number changes when the meaning of a member
    /// changes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let document = NoticeDocument {
            schema: "redeliver.notice/1",
            // The only kind so far; event rules and subscribers can match it.
            kind: "appeared",
            deployment: &self.deployment,
            fingerprint: &self.fingerprint,
            error_type: &self.error_type,
            last_error: self.last_error.as_deref(),
            count: self.count,
            first_at: format_rfc3339(self.first_at),
            last_at: format_rfc3339(self.last_at),
            command: self.audit_command(),
        };
        serde_json::to_string(&document).expect("strings and numbers always serialize")
    }

    /// Returns the human-readable subject, at most [`SUBJECT_CHARACTERS_MAX`] ASCII characters long. The deployment's
    /// name is truncated if necessary.
    #[must_use]
    pub fn subject(&self) -> String {
        let rest = format!(": new dead letters: {}", self.describe_error());
        let room = SUBJECT_CHARACTERS_MAX.saturating_sub(rest.len());
        let subject: String = self.deployment.chars().take(room).chain(rest.chars()).collect();
        subject
            .chars()
            .filter(|character| matches!(character, ' '..='~'))
            .take(SUBJECT_CHARACTERS_MAX)
            .collect()
    }

    /// Returns the text for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { deployment, source, count, .. } = self;
        let letters = if *count == 1 { "dead letter" } else { "dead letters" };
        let (first, last) = (format_to_minute(self.first_at), format_to_minute(self.last_at));
        format!(
            "{deployment}: {}\nAt least {count} {letters}, the first at {first}, the last at {last}.\n\nSee them:\n  {}\n\nOr in the console:\n  redeliver console {source}\n\nCause: {}\n",
            self.describe_error(),
            self.audit_command(),
            self.fingerprint
        )
    }

    fn describe_error(&self) -> String {
        match &self.last_error {
            Some(last_error) => format!("{} ({last_error})", self.error_type),
            None => self.error_type.clone(),
        }
    }
}

fn format_to_minute(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}
