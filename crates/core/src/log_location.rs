//! The location of log lines in CloudWatch Logs.

use serde::Serialize;

/// Size limit of a request id; Lambda's are UUIDs.
const REQUEST_ID_BYTES_MAX: usize = 64;
/// Size limit of log group and log stream names ("CreateLogStream", Amazon CloudWatch Logs API Reference).
const NAME_BYTES_MAX: usize = 512;

/// The known parts of the location of an invocation's log lines. Names that do not follow the CloudWatch or Lambda
/// format are dropped, since the names are used in links and commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogLocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_stream: Option<String>,
}

impl LogLocation {
    /// Creates the location of a log stream. An invalid name counts as unknown.
    #[must_use]
    pub fn in_stream(log_group: Option<String>, log_stream: Option<String>) -> Self {
        Self {
            request_id: None,
            log_group: log_group.filter(|name| is_log_group(name)),
            log_stream: log_stream.filter(|name| is_log_stream(name)),
        }
    }

    /// Narrows the location to the lines with this request id.
    #[must_use]
    pub fn with_request_id(self, request_id: Option<&str>) -> Self {
        let request_id = request_id.filter(|id| is_request_id(id)).map(str::to_owned);
        Self { request_id, ..self }
    }

    /// Returns the request id in the function's own log lines.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    #[must_use]
    pub fn log_group(&self) -> Option<&str> {
        self.log_group.as_deref()
    }

    #[must_use]
    pub fn log_stream(&self) -> Option<&str> {
        self.log_stream.as_deref()
    }

    /// True if nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn is_request_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=REQUEST_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

fn is_log_group(text: &str) -> bool {
    is_safe_name(text, b"_-/.#")
}

/// True for names in Lambda's log stream format, `2026/07/25/orders[$LATEST]0123456789abcdef`. CloudWatch allows more
/// characters.
fn is_log_stream(text: &str) -> bool {
    is_safe_name(text, b"_-/.#[]$")
}

/// True for a name that a command cannot mistake for an option.
fn is_safe_name(text: &str, punctuation: &[u8]) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || punctuation.contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_text;

    proptest! {
        #[test]
        fn only_names_with_harmless_characters_are_kept(text in any_text(), name in "[-a-zA-Z0-9_./#$\\[\\]'; ]{0,12}") {
            for text in [text, name] {
                let location = LogLocation::in_stream(Some(text.clone()), Some(text.clone())).with_request_id(Some(&text));
                let kept = [location.request_id(), location.log_group(), location.log_stream()];
                for kept in kept.into_iter().flatten() {
                    prop_assert_eq!(kept, &text);
                    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./#$[]".contains(&byte);
                    prop_assert!(!kept.is_empty() && kept.bytes().all(is_harmless));
                }
            }
        }
    }
}
