//! The selection of dead letters in an address or a form.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_operator::Failure;
use redeliver_operator::terminal::escape::shortened;
use serde::{Deserialize, Serialize};

use crate::url::encoded;

/// Characters of a value in a sentence.
const VALUE_MAX: usize = 200;

/// Selects dead letters. An empty member selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    /// A fingerprint.
    pub(crate) group: String,
    /// An `ErrorType`.
    #[serde(rename = "type")]
    pub(crate) error_type: String,
    /// Text that its ids, its error or its body contains, in upper or lower case.
    pub(crate) q: String,
    /// A message group, or the value of an attribute or metadata member named `tenant`.
    pub(crate) tenant: String,
    /// Only messages since this time, or within this span, such as `2h`.
    pub(crate) since: String,
    /// Only messages before this time or span.
    pub(crate) until: String,
    /// A jq filter.
    #[serde(rename = "where")]
    pub(crate) filter: String,
    /// One message, by SQS's id.
    pub(crate) id: String,
}

impl Selection {
    pub(crate) fn of_group(fingerprint: &str) -> Self {
        Self { group: fingerprint.to_owned(), ..Self::default() }
    }

    /// One message, by SQS's id.
    pub(crate) fn of_message(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub(crate) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// The members that are set, with their names in addresses and forms.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { group, error_type, q, tenant, since, until, filter, id } = self;
        let parts = [
            ("group", group),
            ("type", error_type),
            ("q", q),
            ("tenant", tenant),
            ("since", since),
            ("until", until),
            ("where", filter),
            ("id", id),
        ];
        parts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.as_str()))
    }

    /// Describes the selection, for a plan that no longer has its filter.
    pub(crate) fn words(&self) -> String {
        let words = self.given().map(|(name, value)| {
            let name = match name {
                "q" => "text",
                "id" => "message",
                name => name,
            };
            format!("{name} {}", shortened(value, VALUE_MAX))
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() { "all".to_owned() } else { words.join(", ") }
    }

    /// The address of a page with this selection.
    pub(crate) fn address(&self, page: &str) -> String {
        let query: Vec<_> = self.given().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        if query.is_empty() { page.to_owned() } else { format!("{page}?{}", query.join("&")) }
    }
}

/// Reads a time, or a span before `now`.
pub(crate) fn moment(name: &str, text: &str, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let span = humantime::parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    // A form's field has no offset: it is UTC, like all times of the page.
    let found = span
        .and_then(|span| now.checked_sub_signed(span))
        .or_else(|| parse_rfc3339(text))
        .or_else(|| parse_rfc3339(&format!("{text}Z")))
        .or_else(|| parse_rfc3339(&format!("{text}:00Z")));
    let wrong =
        || format!("{name}: write a span such as 2h or 7d, or a moment such as 2026-01-31T08:30Z").into();
    found.map(Some).ok_or_else(wrong)
}
