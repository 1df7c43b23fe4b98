//! A body taken apart by `serde_json` alone, and told what it says of its retries.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of `metadata` that redeliver writes, by its documentation.
const OURS: [&str; 6] = [
    "retry_attempt",
    "next_retry_time",
    "first_sent_time",
    "retry_history",
    "snooze_count",
    "redrive_generation",
];

/// What a body says of its retries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retries {
    pub(crate) attempt: u32,
    pub(crate) snoozes: u32,
    pub(crate) generation: Option<u32>,
    pub(crate) first_sent: Option<DateTime<Utc>>,
    pub(crate) next_retry: Option<DateTime<Utc>>,
}

impl Retries {
    /// After it came back from the final DLQ.
    pub(crate) fn of_next_generation(&self) -> Self {
        let generation = Some((self.generation.unwrap_or(0) + 1).min(100));
        Self { generation, ..Self::default() }
    }

    /// When it was first sent, given the clock of its delivery.
    pub(crate) fn first_sent(&self, sent_at: DateTime<Utc>) -> DateTime<Utc> {
        let spent = self.attempt + self.snoozes > 0;
        self.first_sent.filter(|first| spent && *first <= sent_at).unwrap_or(sent_at)
    }
}

/// A body: its parts that no re-send may change, as they are written and in their order, and its retries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Body {
    kept: Vec<(String, String)>,
    pub(crate) retries: Retries,
}

impl Body {
    /// `None` where it is not a JSON object with an object `metadata`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let top: Members<'_> = serde_json::from_str(text).ok()?;
        let mut kept = Vec::new();
        let mut retries = None;
        for (name, value) in top.0 {
            if name != "metadata" {
                kept.push((name, value.get().to_owned()));
                continue;
            }
            let metadata: Members<'_> = serde_json::from_str(value.get()).ok()?;
            let mut told = Retries::default();
            kept.push((name, String::new()));
            for (name, value) in metadata.0 {
                if OURS.contains(&name.as_str()) {
                    told.tell(&name, value.get());
                } else {
                    kept.push((format!("metadata/{name}"), value.get().to_owned()));
                }
            }
            retries = Some(told);
        }
        Some(Self { kept, retries: retries? })
    }

    /// Whether both have the same bytes where nothing may change.
    pub(crate) fn keeps(&self, other: &Self) -> bool {
        self.kept == other.kept
    }
}

impl Retries {
    fn tell(&mut self, name: &str, value: &str) {
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
            _ => {}
        }
    }
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_members_may_change_and_nothing_else() {
        let sent =
            Body::parse(r#" {"data":{"a":1e400},"metadata":{"message_id":"x","tenant":"é"}}"#).unwrap();
        let resent = r#" {"data":{"a":1e400},"metadata":{"message_id":"x","tenant":"é","retry_attempt":3,"first_sent_time":"2026-01-01T00:00:00Z"}}"#;
        let parsed = Body::parse(resent).unwrap();
        assert!(parsed.keeps(&sent));
        assert_eq!(parsed.retries.attempt, 3);
        assert_eq!(parsed.retries.first_sent.unwrap().timestamp(), 1_767_225_600);
        for changed in [
            resent.replace("1e400", "1e+400"),
            resent.replace("é", "\\u00e9"),
            resent.replace(r#","tenant":"é""#, ""),
            resent.replace(r#""message_id":"x","tenant":"é""#, r#""tenant":"é","message_id":"x""#),
            resent.replace(r#""metadata":"#, r#""more":1,"metadata":"#),
        ] {
            assert!(!Body::parse(&changed).unwrap().keeps(&sent), "{changed}");
        }
    }
}
