//! Parses a body with `serde_json` alone and reads its retry members.

use std::fmt;

use chrono::{DateTime, Utc};
use redeliver_core::trace::SpanContext;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::spans::span_context;

/// The members of `metadata` that redeliver writes, according to its documentation.
const OURS: [&str; 12] = [
    "retry_attempt",
    "next_retry_time",
    "first_sent_time",
    "retry_history",
    "snooze_count",
    "redrive_generation",
    "held_since",
    "outage_failures",
    "held_seconds",
    "redrive_count",
    "redrive_count_at_answer",
    "last_attempt_traceparent",
];

/// The retry members of a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetryMembers {
    pub(crate) attempt: u32,
    pub(crate) snoozes: u32,
    pub(crate) generation: Option<u32>,
    pub(crate) first_sent: Option<DateTime<Utc>>,
    pub(crate) next_retry: Option<DateTime<Utc>>,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) held_since: Option<DateTime<Utc>>,
    pub(crate) outage_failures: u32,
    pub(crate) held_seconds: u64,
    /// True if the body claims that the message was held, whether or not the claim is trusted.
    pub(crate) claims_holds: bool,
    pub(crate) redrives: u32,
    /// Number of redrives before the last answered call.
    pub(crate) redrives_answered: u32,
}

/// An entry of `retry_history`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistoryEntry {
    pub(crate) attempt: u64,
    pub(crate) error_type: String,
    pub(crate) details_bytes: usize,
}

impl RetryMembers {
    /// Returns the members after a return from the final DLQ. `recorded` is the generation in the final record, which
    /// can be higher than the body's.
    pub(crate) fn for_next_generation(&self, recorded: Option<u32>) -> Self {
        let before = self.generation.max(recorded).unwrap_or(0);
        let generation = Some(before.min(99) + 1);
        Self { generation, ..Self::default() }
    }

    /// Returns the members of a message that redeliver did not send, and that therefore was never held.
    pub(crate) fn for_producer(self) -> Self {
        Self { held_since: None, outage_failures: 0, held_seconds: 0, ..self }
    }

    /// Returns true if both have the same counts.
    pub(crate) fn has_same_counts(&self, other: &Self) -> bool {
        let redrives = |retries: &Self| (retries.redrives, retries.redrives_answered);
        let counts = |retries: &Self| {
            (retries.attempt, retries.snoozes, retries.held_seconds, redrives(retries), retries.generation)
        };
        counts(self) == counts(other)
    }

    /// Returns the number of moves by SQS since the last answered call. If the count at that call exceeds the total, it
    /// is ignored.
    pub(crate) fn redrives_since_answer(&self) -> u32 {
        if self.redrives_answered > self.redrives {
            self.redrives
        } else {
            self.redrives - self.redrives_answered
        }
    }

    /// Returns the time of the first send, given the `SentTimestamp` of the delivery.
    pub(crate) fn first_sent(&self, sent_at: DateTime<Utc>) -> DateTime<Utc> {
        let was_resent = self.attempt + self.snoozes + self.redrives > 0 || self.claims_holds;
        self.first_sent.filter(|first| was_resent && *first <= sent_at).unwrap_or(sent_at)
    }
}

/// A body, split into its retry members and the parts that no re-send may change, as written and in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LedgerBody {
    kept: Vec<(String, String)>,
    pub(crate) retries: RetryMembers,
    pub(crate) last_attempt: Option<SpanContext>,
}

impl LedgerBody {
    /// Parses a body. Returns `None` unless it is a JSON object with an object `metadata`.
    ///
    /// Everything between two values is kept as written: names with their escapes, commas, white space. In `metadata`,
    /// where members are added and removed, only the part from each name to its value is kept.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut kept = Vec::new();
        let (mut retries, mut last_attempt) = (None, None);
        let mut end = 0;
        for (name, value) in parse_members(text)? {
            let start = byte_offset(text, value);
            let before = text[end..start].to_owned();
            end = start + value.len();
            if name != "metadata" {
                kept.push((before, value.to_owned()));
                continue;
            }
            kept.push((before, String::new()));
            let mut read = RetryMembers::default();
            let mut end = 0;
            for (name, member) in parse_members(value)? {
                let start = byte_offset(value, member);
                let before = &value[end..start];
                end = start + member.len();
                if OURS.contains(&name.as_str()) {
                    read.set_member(&name, member);
                    if name == "last_attempt_traceparent" {
                        last_attempt = serde_json::from_str(member).ok().and_then(span_context);
                    }
                } else {
                    kept.push((before[before.find('"')?..].to_owned(), member.to_owned()));
                }
            }
            retries = Some(read);
        }
        kept.push((text[end..].to_owned(), String::new()));
        Some(Self { kept, retries: retries?, last_attempt })
    }

    /// Returns true if both bodies have the same bytes wherever nothing may change.
    pub(crate) fn keeps_content_of(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl RetryMembers {
    fn set_member(&mut self, name: &str, value: &str) {
        let time = || {
            let text: String = serde_json::from_str(value).ok()?;
            DateTime::parse_from_rfc3339(&text).ok().map(|time| time.to_utc())
        };
        match name {
            "retry_attempt" => self.attempt = value.parse().unwrap_or(u32::MAX),
            "snooze_count" => self.snoozes = value.parse().unwrap_or(u32::MAX),
            "redrive_generation" => self.generation = value.parse().ok(),
            "first_sent_time" => self.first_sent = time(),
            "next_retry_time" => self.next_retry = time(),
            "retry_history" => self.history = parse_history(value),
            "held_since" => self.held_since = time(),
            "outage_failures" => self.outage_failures = value.parse().unwrap_or(u32::MAX),
            "held_seconds" => {
                self.held_seconds = value.parse().unwrap_or(u64::MAX);
                self.claims_holds = self.held_seconds > 0;
            }
            "redrive_count" => self.redrives = value.parse().unwrap_or(u32::MAX),
            "redrive_count_at_answer" => self.redrives_answered = value.parse().unwrap_or(u32::MAX),
            _ => {}
        }
    }
}

fn parse_members(text: &str) -> Option<Vec<(String, &str)>> {
    let members: RawMembers<'_> = serde_json::from_str(text).ok()?;
    Some(members.0.into_iter().map(|(name, value)| (name, value.get())).collect())
}

/// Returns the byte offset of a part in its string.
fn byte_offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

fn parse_history(text: &str) -> Vec<HistoryEntry> {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let entries = document.as_array().into_iter().flatten();
    let past = entries.map(|past| HistoryEntry {
        attempt: past["attempt"].as_u64().unwrap_or(u64::MAX),
        error_type: past["error_type"].as_str().unwrap_or("").to_owned(),
        details_bytes: past["error_details"].as_str().map_or(usize::MAX, str::len),
    });
    past.collect()
}

/// The members of an object, in order.
struct RawMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawMembersVisitor<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for RawMembersVisitor<'a> {
            type Value = RawMembers<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(RawMembersVisitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_re_send_changes_only_retry_members() {
        let sent =
            LedgerBody::parse(r#" {"data":{"a":1e400},"metadata":{"message_id":"x","tenant":"é"}}"#).unwrap();
        let resent = r#" {"data":{"a":1e400},"metadata":{"message_id":"x","tenant":"é","retry_attempt":3,"first_sent_time":"2026-01-01T00:00:00Z"}}"#;
        let parsed = LedgerBody::parse(resent).unwrap();
        assert!(parsed.keeps_content_of(&sent));
        assert_eq!(parsed.retries.attempt, 3);
        assert_eq!(parsed.retries.first_sent.unwrap().timestamp(), 1_767_225_600);
        for changed in [
            resent.replace("1e400", "1e+400"),
            resent.replace("é", "\\u00e9"),
            resent.replace(r#","tenant":"é""#, ""),
            resent.replace(r#""message_id":"x","tenant":"é""#, r#""tenant":"é","message_id":"x""#),
            resent.replace(r#""metadata":"#, r#""more":1,"metadata":"#),
            resent.replace(r#""metadata":"#, r#""met\u0061data":"#),
            resent.replace(r#""tenant":"#, r#""t\u0065nant":"#),
            resent.replace(r#""tenant":"#, r#""tenant" :"#),
            resent.replace(r#"},"meta"#, r#"}, "meta"#),
            resent.trim().to_owned(),
            format!("{resent}\n"),
        ] {
            assert!(!LedgerBody::parse(&changed).unwrap().keeps_content_of(&sent), "{changed}");
        }
    }
}
