//! The selection of dead letters in a URL or a form.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_operator::CommandFailure;
use redeliver_operator::terminal::escape::shorten_text;
use serde::{Deserialize, Serialize};

use crate::url::percent_encode;

/// Maximum length of a value in a sentence, in characters.
const VALUE_MAX: usize = 200;

/// The value of `new` for causes that no reading found before this console started.
pub(crate) const SINCE_LAST_REFRESH: &str = "last-refresh";

/// Selects dead letters. An empty field does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    /// A fingerprint.
    pub(crate) group: String,
    /// An `ErrorType`.
    #[serde(rename = "type")]
    pub(crate) error_type: String,
    /// Text in the error or the body, ignoring case; or one of the message's ids.
    pub(crate) q: String,
    /// The value of an attribute or metadata member named `tenant`; without one, the message group.
    pub(crate) tenant: String,
    /// The function that gave up on the message.
    pub(crate) function: String,
    /// Only causes that no reading found before this console started (`last-refresh`), or that are new since a time or
    /// within a span.
    pub(crate) new: String,
    /// Only messages since this time, or within this span, such as `2h`.
    pub(crate) since: String,
    /// Only messages before this time, or older than this span.
    pub(crate) until: String,
    /// A jq filter.
    #[serde(rename = "where")]
    pub(crate) filter: String,
    /// One message, by its SQS message id.
    pub(crate) id: String,
}

impl Selection {
    /// Selects one message by its SQS message id.
    pub(crate) fn for_message(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub(crate) fn selects_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fields that are set, by their names in URLs and forms.
    pub(crate) fn active_members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { group, error_type, q, tenant, function, new, since, until, filter, id } = self;
        let parts = [
            ("group", group),
            ("type", error_type),
            ("q", q),
            ("tenant", tenant),
            ("function", function),
            ("new", new),
            ("since", since),
            ("until", until),
            ("where", filter),
            ("id", id),
        ];
        parts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.as_str()))
    }

    /// Returns the fields that are set, each with its name and its description.
    pub(crate) fn describe_members(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.active_members().map(|(name, value)| {
            let words = match name {
                "q" => format!("text {}", shorten_text(value, VALUE_MAX)),
                "id" => format!("message {value}"),
                "group" => format!("cause {value}"),
                "new" if value == SINCE_LAST_REFRESH => "new since the last refresh".to_owned(),
                "new" => format!("new since {}", shorten_text(value, VALUE_MAX)),
                name => format!("{name} {}", shorten_text(value, VALUE_MAX)),
            };
            (name, words)
        })
    }

    /// Returns the selection without one of its fields.
    pub(crate) fn without_member(&self, name: &str) -> Self {
        let mut rest = self.clone();
        let Self { group, error_type, q, tenant, function, new, since, until, filter, id } = &mut rest;
        let member = match name {
            "group" => group,
            "type" => error_type,
            "q" => q,
            "tenant" => tenant,
            "function" => function,
            "new" => new,
            "since" => since,
            "until" => until,
            "where" => filter,
            _ => id,
        };
        member.clear();
        rest
    }

    /// Describes the selection in words.
    pub(crate) fn describe(&self) -> String {
        let words = self.describe_members().map(|(_, words)| words);
        let words: Vec<_> = words.collect();
        if words.is_empty() { "all".to_owned() } else { words.join(", ") }
    }

    /// Returns the URL of a page with this selection.
    pub(crate) fn page_url(&self, page: &str) -> String {
        let query: Vec<_> =
            self.active_members().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
        if query.is_empty() { page.to_owned() } else { format!("{page}?{}", query.join("&")) }
    }
}

/// Parses a time, or a span before `now`.
pub(crate) fn parse_moment(
    name: &str,
    text: &str,
    now: Timestamp,
) -> Result<Option<Timestamp>, CommandFailure> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let span = humantime::parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    // The value of a form field has no offset; like all times on the page, it is in UTC.
    let found = span
        .and_then(|span| now.checked_sub_signed(span))
        .or_else(|| parse_rfc3339(text))
        .or_else(|| parse_rfc3339(&format!("{text}Z")))
        .or_else(|| parse_rfc3339(&format!("{}:00Z", text.strip_suffix('Z').unwrap_or(text))));
    let wrong =
        || format!("{name}: write a span such as 2h or 7d, or a moment such as 2026-01-31T08:30Z").into();
    found.map(Some).ok_or_else(wrong)
}
