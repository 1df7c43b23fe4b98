//! The location of an attempt's log lines in CloudWatch Logs.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};

use super::Timestamp;
use super::metadata::{format_rfc3339, parse_rfc3339};
use crate::json::forward_compatible::UnknownMembers;
use crate::log_location::LogLocation;

/// The name of the member in our documents.
pub(crate) const LAST_ATTEMPT_LOGS: &str = "last_attempt_logs";

/// The location of the failed attempt's log lines, with its start and end times.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptLogs {
    location: LogLocation,
    started_at: Timestamp,
    ended_at: Timestamp,
    /// Unknown members, preserved unchanged.
    unknown: UnknownMembers,
}

impl AttemptLogs {
    /// Creates the location of a call's log lines. Returns `None` if no part of the location is known, or if the call
    /// ends before it starts.
    #[must_use]
    pub fn new(location: LogLocation, started_at: Timestamp, ended_at: Timestamp) -> Option<Self> {
        let logs = Self { location, started_at, ended_at, unknown: UnknownMembers::default() };
        (!logs.location.is_empty() && started_at <= ended_at).then_some(logs)
    }

    #[must_use]
    pub fn location(&self) -> &LogLocation {
        &self.location
    }

    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    #[must_use]
    pub fn ended_at(&self) -> Timestamp {
        self.ended_at
    }

    /// Appends the location as the last member of one of our documents, a non-empty object, if it fits.
    pub(crate) fn append_to(&self, document: String, has_room: impl Fn(usize) -> bool) -> String {
        let logs =
            serde_json::to_string(self).expect("strings and maps with string keys can always be serialized");
        let Some(open) = document.strip_suffix('}') else { return document };
        let with_logs = format!("{open},\"{LAST_ATTEMPT_LOGS}\":{logs}}}");
        if has_room(with_logs.len()) { with_logs } else { document }
    }

    /// Returns the document without the member that [`Self::append_to`] added, or `None` if the document does not have
    /// one.
    pub(crate) fn remove_from(document: &str) -> Option<String> {
        // Quotation marks in strings are escaped, so this cannot match inside a string.
        let (without, logs) = document.rsplit_once(&format!(",\"{LAST_ATTEMPT_LOGS}\":"))?;
        // A producer's attribute in a nested map may have the same name.
        serde_json::from_str::<IgnoredAny>(logs.strip_suffix('}')?).ok()?;
        Some(format!("{without}}}"))
    }

    /// Parses the member's value. A value that no version writes counts as absent: an invalid location must not make
    /// the message fail.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct ParsedLogs<'a> {
            #[serde(borrow)]
            request_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            log_group: Option<Cow<'a, str>>,
            #[serde(borrow)]
            log_stream: Option<Cow<'a, str>>,
            #[serde(borrow)]
            started_at: Cow<'a, str>,
            #[serde(borrow)]
            ended_at: Cow<'a, str>,
        }
        let ParsedLogs { request_id, log_group, log_stream, started_at, ended_at } =
            serde_json::from_str(text.starts_with('{').then_some(text)?).ok()?;
        let location =
            LogLocation::in_stream(log_group.map(Cow::into_owned), log_stream.map(Cow::into_owned))
                .with_request_id(request_id.as_deref());
        let logs = Self::new(location, parse_rfc3339(&started_at)?, parse_rfc3339(&ended_at)?)?;
        let known = ["request_id", "log_group", "log_stream", "started_at", "ended_at"];
        Some(Self { unknown: UnknownMembers::all_except(&known, text), ..logs })
    }
}

impl Serialize for AttemptLogs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { location, started_at, ended_at, unknown } = self;
        #[derive(Serialize)]
        struct SerializedLogs<'a> {
            #[serde(flatten)]
            location: &'a LogLocation,
            started_at: String,
            ended_at: String,
            #[serde(flatten)]
            unknown: &'a UnknownMembers,
        }
        let (started_at, ended_at) = (format_rfc3339(*started_at), format_rfc3339(*ended_at));
        SerializedLogs { location, started_at, ended_at, unknown }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const STREAM: &str = "2026/07/25/orders[$LATEST]0123456789abcdef0123456789abcdef";
    const ID: &str = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";

    fn logs() -> AttemptLogs {
        let location = LogLocation::in_stream(Some("/aws/lambda/orders".to_owned()), Some(STREAM.to_owned()))
            .with_request_id(Some(ID));
        AttemptLogs::new(location, at(1), at(2)).unwrap()
    }

    #[test]
    fn attempt_logs_keep_unknown_members_in_a_round_trip() {
        let json = serde_json::to_string(&logs()).unwrap();
        let expected = format!(
            r#"{{"request_id":"{ID}","log_group":"/aws/lambda/orders","log_stream":"{STREAM}","started_at":"2026-07-25T17:20:01.000000Z","ended_at":"2026-07-25T17:20:02.000000Z"}}"#
        );
        assert_eq!(json, expected);
        assert_eq!(AttemptLogs::from_json(&json), Some(logs()));
        let later = json.replace("{\"request", "{\"account\":\"1\",\"request");
        let read = AttemptLogs::from_json(&later).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json.replace('}', ",\"account\":\"1\"}"));
        let short =
            r#"{"request_id":"a","started_at":"1970-01-01T00:00:00Z","ended_at":"1970-01-01T00:00:00Z"}"#;
        let read = AttemptLogs::from_json(short).unwrap();
        assert_eq!((read.location().request_id(), read.location().log_group()), (Some("a"), None));
    }

    #[test]
    fn only_the_appended_member_is_removed_not_an_attribute_with_its_name() {
        let document = r#"{"code":"A","attributes":{"last_attempt_logs":{"String":"x"}}}"#.to_owned();
        assert_eq!(AttemptLogs::remove_from(&document), None);
        let document = r#"{"code":"A","attributes":{"a":1,"last_attempt_logs":{"String":"x"}}}"#.to_owned();
        assert_eq!(AttemptLogs::remove_from(&document), None);
        let with_logs = logs().append_to(document.clone(), |_| true);
        assert_eq!(AttemptLogs::remove_from(&with_logs), Some(document));
    }

    #[test]
    fn invalid_log_location_counts_as_absent() {
        let times = r#""started_at":"1970-01-01T00:00:01Z","ended_at":"1970-01-01T00:00:02Z""#;
        for wrong in [
            "null".to_owned(),
            "[]".to_owned(),
            format!("{{{times}}}"),
            format!("{{\"request_id\":7,{times}}}"),
            format!("{{\"request_id\":\"a b\",{times}}}"),
            format!("{{\"log_group\":\"$(id)\",{times}}}"),
            format!("{{\"log_group\":\"--endpoint-url\",{times}}}"),
            format!("{{\"request_id\":\"a\",\"request_id\":\"b\",{times}}}"),
            r#"{"request_id":"a","started_at":"1970-01-01T00:00:02Z"}"#.to_owned(),
            r#"{"request_id":"a","started_at":"1970-01-01T00:00:02Z","ended_at":"1970-01-01T00:00:01Z"}"#
                .to_owned(),
        ] {
            assert_eq!(AttemptLogs::from_json(&wrong), None, "{wrong}");
        }
    }
}
