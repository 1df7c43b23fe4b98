//! The `metadata` of a message: the members that redeliver reads and writes.

mod holds;

use chrono::{DateTime, SecondsFormat, SubsecRound as _, TimeDelta};
use serde::Serialize;
use uuid::Uuid;

use crate::json::forward_compatible::UnknownMembers;
use crate::message::Timestamp;
use crate::message::reserved::{NOT_STARTED, REDRIVE};
use crate::span_context::SpanContext;
use crate::truncate;
pub use holds::Holds;

/// The members that redeliver writes; all others are the producer's.
pub const OUR_MEMBERS: [&str; 12] = [
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
    LAST_ATTEMPT,
];

/// The member for the span of the last attempt, a W3C `traceparent`. It has the same name in `Failure` and
/// `DeadLetter`. Any other value counts as absent.
pub(crate) const LAST_ATTEMPT: &str = "last_attempt_traceparent";

/// Number of failures kept in `retry_history`. They use less than 5 KB of a message's 1 MiB.
pub const HISTORY_MAX: usize = 5;
/// Size limit of `error_details` in `retry_history`.
pub const HISTORY_DETAILS_BYTES_MAX: usize = 256;
/// Limit on re-sends caused by a snooze or by a call that did not start in time. It stops a handler that always
/// snoozes: 100 snoozes of 900 s take 25 hours.
pub const SNOOZES_MAX: u32 = 100;
/// The highest `redrive_generation`, which is also the limit in the message schema. The count saturates: a script that
/// keeps sending the same message back must not produce an invalid body.
pub const GENERATION_MAX: u32 = 100;
/// The longest `hold_seconds_max`, plus the longest hold, which may start just before that limit.
pub const HELD_SECONDS_MAX: u32 = 1_209_600 + 900;
/// The highest `outage_failures`.
pub const OUTAGE_FAILURES_MAX: u32 = 65_535;
/// The highest `max_redrives` and the highest `redrive_count`.
pub const REDRIVES_MAX: u32 = 1000;

/// The return of an unchanged message from the final DLQ. Ordered by generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DlqReturn {
    /// The generation in the message's final record, if it has one.
    pub generation_before: Option<u32>,
    /// The span of the last attempt in the message's final record, if it has one.
    pub last_attempt: Option<SpanContext>,
}

/// The parsed `metadata` of a valid message.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// The producer's id for the message, the same in every copy.
    pub message_id: Uuid,
    /// The id as the producer wrote it.
    pub message_id_text: String,
    /// Number of retries so far.
    pub retry_attempt: u32,
    /// Time of the first send, if present; see [`Metadata::first_sent`].
    pub first_sent_time: Option<Timestamp>,
    /// The last failures, newest last.
    pub retry_history: Vec<PastFailure>,
    /// Number of re-sends caused by a snooze or by a call that did not start in time.
    pub snooze_count: u32,
    /// Number of times the message was sent back from the final DLQ; `None` if the member is absent.
    pub redrive_generation: Option<u32>,
    /// The outage during which the message is held, and the total time it has been held.
    pub holds: Holds,
    /// Number of times the message was re-sent after SQS had moved it.
    pub redrive_count: u32,
    /// `redrive_count` at the last answer; see [`Metadata::redrives_since_answer`].
    pub redrive_count_at_answer: u32,
    /// The span of the message's last attempt, if spans are recorded.
    pub last_attempt: Option<SpanContext>,
    /// The producer's own expiry.
    pub expires_at: Option<Timestamp>,
    /// The producer's own limit on retries. It applies if it is lower than the policy's.
    pub max_attempts: Option<u32>,
}

impl Metadata {
    /// Creates the metadata of a message that only has an id.
    pub(crate) fn from_id(message_id: Uuid, message_id_text: String) -> Self {
        Self {
            message_id,
            message_id_text,
            retry_attempt: 0,
            first_sent_time: None,
            retry_history: Vec::new(),
            snooze_count: 0,
            redrive_generation: None,
            holds: Holds::default(),
            redrive_count: 0,
            redrive_count_at_answer: 0,
            last_attempt: None,
            expires_at: None,
            max_attempts: None,
        }
    }

    /// Returns the time of the first send: `metadata.first_sent_time` if it is trusted (after a retry, and not later
    /// than the delivery itself), otherwise the `SentTimestamp` of this delivery.
    #[must_use]
    pub fn first_sent(&self, sent_at: Timestamp) -> Timestamp {
        match self.first_sent_time {
            // Before the first re-send, the member is the producer's own, and an old date would make the message expire
            // immediately. A date after the delivery would give the message more time than the policy does.
            Some(first) if self.was_resent() && first <= sent_at => first,
            _ => sent_at,
        }
    }

    /// Returns the number of redrives since the last answer.
    #[must_use]
    pub fn redrives_since_answer(&self) -> u32 {
        // A producer may have written a count that exceeds the total.
        self.redrive_count.checked_sub(self.redrive_count_at_answer).unwrap_or(self.redrive_count)
    }

    /// Returns the number of failed calls for this message: `retry_attempt`, or the number of calls in `retry_history`
    /// if it is greater (the history keeps the last five failures). A delivery without a call does not count.
    #[must_use]
    pub fn failed_calls(&self) -> u32 {
        let not_called = [REDRIVE, NOT_STARTED];
        let is_call = |past: &&PastFailure| !not_called.contains(&past.error_type.as_str());
        let calls = self.retry_history.iter().filter(is_call).count();
        self.retry_attempt.max(u32::try_from(calls).unwrap_or(u32::MAX))
    }

    /// Returns true if redeliver has re-sent the message, so that its `first_sent_time` is ours.
    fn was_resent(&self) -> bool {
        self.holds.are_claimed()
            || [self.retry_attempt, self.snooze_count, self.redrive_count].iter().any(|count| *count > 0)
    }

    /// Returns the metadata after a return from the final DLQ, with no retries spent. If the message was given up on
    /// without a re-send, its body does not have the latest generation, so the generation in its final record counts.
    #[must_use]
    pub fn into_next_generation(self, DlqReturn { generation_before, last_attempt }: DlqReturn) -> Self {
        // Copies of a message may return with different bodies. The greater number is the newer one, and reusing a
        // generation would repeat the delays of its first use.
        let before = self.generation().max(generation_before.unwrap_or(0));
        Self {
            redrive_generation: Some(before.saturating_add(1).min(GENERATION_MAX)),
            last_attempt: last_attempt.or(self.last_attempt),
            expires_at: self.expires_at,
            max_attempts: self.max_attempts,
            // All our other members are reset. This includes the age: otherwise, `max_age_seconds` would make the
            // message expire immediately.
            ..Self::from_id(self.message_id, self.message_id_text)
        }
    }

    /// Returns the generation: the number of returns from the final DLQ, at most 100, or 0 if the member is absent.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.redrive_generation.unwrap_or(0)
    }
}

/// An entry of `metadata.retry_history`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PastFailure {
    /// `retry_attempt` of the failed delivery: 0 for the first delivery.
    pub attempt: u32,
    /// RFC 3339 UTC with microseconds.
    pub failed_at: String,
    pub error_type: String,
    /// At most 256 bytes: longer text is truncated in the middle.
    pub error_details: String,
    /// Unknown members, preserved unchanged.
    #[serde(flatten)]
    pub unknown: UnknownMembers,
}

impl PastFailure {
    /// Creates an entry with truncated texts.
    #[must_use]
    pub fn new(attempt: u32, failed_at: Timestamp, error_type: &str, error_details: &str) -> Self {
        Self {
            attempt,
            failed_at: format_rfc3339(failed_at),
            error_type: truncate::clean_text(error_type, truncate::ERROR_TYPE_BYTES_MAX),
            error_details: truncate::clean_and_cut_middle(error_details, HISTORY_DETAILS_BYTES_MAX),
            unknown: UnknownMembers::default(),
        }
    }

    /// Truncates the entry's texts, because a producer may have written them.
    pub(crate) fn with_clean_texts(self) -> Self {
        Self {
            error_type: truncate::clean_text(&self.error_type, truncate::ERROR_TYPE_BYTES_MAX),
            error_details: truncate::clean_and_cut_middle(&self.error_details, HISTORY_DETAILS_BYTES_MAX),
            ..self
        }
    }
}

/// The metadata members that a re-send writes.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryMetadata {
    /// Number of retries, including this one.
    pub retry_attempt: u32,
    /// Earliest time of the next call: now plus the delay.
    pub next_retry_time: Timestamp,
    /// Time of the first send.
    pub first_sent_time: Timestamp,
    /// The last failures, newest last.
    pub retry_history: Vec<PastFailure>,
    /// Number of re-sends caused by a snooze or by a call that did not start in time. Omitted if 0.
    pub snooze_count: u32,
    /// The message's generation, if it has one.
    pub redrive_generation: Option<u32>,
    /// Start of the outage, if this re-send holds the message because of an outage.
    pub held_since: Option<Timestamp>,
    /// Number of consecutive first calls that failed in that outage. Omitted if 0.
    pub outage_failures: u32,
    /// Total time held, in seconds. Omitted if 0.
    pub held_seconds: u32,
    /// Number of times the message was re-sent after SQS had moved it. Omitted if 0.
    pub redrive_count: u32,
    /// `redrive_count` at the last answer. Omitted if 0.
    pub redrive_count_at_answer: u32,
    /// The span of the message's last attempt, if spans are recorded.
    pub last_attempt: Option<SpanContext>,
}

/// Our members, each with its JSON text, or `None` if it is to be removed from the body.
pub(crate) type OurMembers = [(&'static str, Option<String>); OUR_MEMBERS.len()];

/// Returns our members after a reset.
pub(crate) fn fresh_members(fresh: &Metadata) -> OurMembers {
    OUR_MEMBERS.map(|name| {
        let value = match name {
            "redrive_generation" => fresh.redrive_generation.map(|generation| generation.to_string()),
            LAST_ATTEMPT => fresh.last_attempt.map(quote_traceparent),
            _ => None,
        };
        (name, value)
    })
}

impl RetryMetadata {
    /// Returns each of [`OUR_MEMBERS`] with its JSON text, or `None` if it is to be removed from the body.
    pub(crate) fn json_members(&self) -> OurMembers {
        let [
            attempt,
            next,
            first,
            history,
            snoozes,
            generation,
            held_since,
            outage_failures,
            held_seconds,
            redrives,
            redrives_at_answer,
            last_attempt,
        ] = OUR_MEMBERS;
        let nonzero_text = |count: u32| (count > 0).then(|| count.to_string());
        [
            (attempt, Some(self.retry_attempt.to_string())),
            (next, Some(quote_time(self.next_retry_time))),
            (first, Some(quote_time(self.first_sent_time))),
            (history, (!self.retry_history.is_empty()).then(|| history_text(&self.retry_history))),
            (snoozes, nonzero_text(self.snooze_count)),
            (generation, self.redrive_generation.map(|generation| generation.to_string())),
            (held_since, self.held_since.map(quote_time)),
            (outage_failures, nonzero_text(self.outage_failures)),
            (held_seconds, nonzero_text(self.held_seconds)),
            (redrives, nonzero_text(self.redrive_count)),
            (redrives_at_answer, nonzero_text(self.redrive_count_at_answer)),
            (last_attempt, self.last_attempt.map(quote_traceparent)),
        ]
    }
}

fn history_text(history: &[PastFailure]) -> String {
    serde_json::to_string(history).expect("strings and numbers can always be serialized")
}

fn quote_traceparent(span: SpanContext) -> String {
    format!("\"{}\"", span.traceparent())
}

fn quote_time(moment: Timestamp) -> String {
    format!("\"{}\"", format_rfc3339(moment))
}

/// Formats a time as RFC 3339 UTC with microseconds and `Z`, like all times that redeliver writes.
#[must_use]
pub fn format_rfc3339(moment: Timestamp) -> String {
    moment.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Parses an RFC 3339 time with any offset. The result is truncated to microseconds, so that it survives a round trip.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let moment = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    // In UTC, a time may be outside the years that RFC 3339 can express, such as 0000-01-01T00:00:00+01:00.
    Some(moment.clamp(YEAR_0, YEAR_10_000 - MICROSECOND).trunc_subsecs(6))
}

/// A due time that is never reached: the last second that RFC 3339 can express.
pub(crate) const NEVER: Timestamp =
    DateTime::from_timestamp_secs(253_402_300_799).expect("RFC 3339's last second");

const MICROSECOND: TimeDelta = TimeDelta::microseconds(1);
const YEAR_0: Timestamp = DateTime::from_timestamp_secs(-62_167_219_200).expect("RFC 3339's first year");
const YEAR_10_000: Timestamp =
    DateTime::from_timestamp_secs(253_402_300_800).expect("after RFC 3339's last year");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::schema::MessageSchema;

    #[test]
    fn times_are_written_as_utc_with_microseconds_and_z() {
        for (read, written) in [
            ("2026-07-25T17:20:00Z", "2026-07-25T17:20:00.000000Z"),
            ("2026-07-25T19:20:00.123456789+02:00", "2026-07-25T17:20:00.123456Z"),
            ("1969-12-31T23:59:59.5-00:00", "1969-12-31T23:59:59.500000Z"),
        ] {
            assert_eq!(format_rfc3339(parse_rfc3339(read).unwrap()), written);
        }
        assert_eq!(parse_rfc3339("2026-07-25"), None);
        assert_eq!(parse_rfc3339(""), None);
    }

    #[test]
    fn rfc3339_time_out_of_range_is_clamped() {
        for (read, written) in [
            ("0000-01-01T00:00:00+01:00", "0000-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999Z"),
            ("2026-07-25T17:20:00.0000005Z", "2026-07-25T17:20:00.000000Z"),
        ] {
            let moment = parse_rfc3339(read).unwrap();
            assert_eq!(format_rfc3339(moment), written);
            assert_eq!(parse_rfc3339(written), Some(moment));
        }
    }

    proptest! {
        #[test]
        fn rfc3339_time_survives_a_round_trip(
            text in "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]{1,12})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
        ) {
            if let Some(moment) = parse_rfc3339(&text) {
                prop_assert_eq!(parse_rfc3339(&format_rfc3339(moment)), Some(moment));
            }
        }
    }

    /// A leap second is second 60, and a year with more than four digits has a sign.
    #[test]
    fn leap_seconds_and_five_digit_years_are_written() {
        let leap = parse_rfc3339("2016-12-31T23:59:60.25Z").unwrap();
        assert_eq!(format_rfc3339(leap), "2016-12-31T23:59:60.250000Z");
        for (seconds, written) in [
            (-62_167_219_200, "0000-01-01T00:00:00.000001Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000001Z"),
            (253_402_300_800, "+10000-01-01T00:00:00.000001Z"),
        ] {
            assert_eq!(format_rfc3339(Timestamp::from_timestamp(seconds, 1999).unwrap()), written);
        }
    }

    #[test]
    fn a_past_failure_is_truncated_to_its_limits() {
        let moment = parse_rfc3339("2026-07-25T17:20:00Z").unwrap();
        let past = PastFailure::new(3, moment, &"t".repeat(500), &"d".repeat(500));
        assert_eq!(past.attempt, 3);
        assert_eq!(past.failed_at, "2026-07-25T17:20:00.000000Z");
        assert_eq!(past.error_type, format!("{}…", "t".repeat(125)));
        assert_eq!(past.error_details, format!("{}…{}", "d".repeat(169), "d".repeat(84)));
    }

    #[test]
    fn retry_metadata_omits_absent_members_and_counts_of_zero() {
        let moment = parse_rfc3339("2026-07-25T17:20:00Z").unwrap();
        let retry = RetryMetadata {
            retry_attempt: 1,
            next_retry_time: moment,
            first_sent_time: moment,
            retry_history: Vec::new(),
            snooze_count: 0,
            redrive_generation: None,
            held_since: None,
            outage_failures: 0,
            held_seconds: 0,
            redrive_count: 0,
            redrive_count_at_answer: 0,
            last_attempt: None,
        };
        let member_names = |retry: &RetryMetadata| {
            let members = retry.json_members();
            members.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(member_names(&retry), ["retry_attempt", "next_retry_time", "first_sent_time"]);
        let all = RetryMetadata {
            retry_history: vec![PastFailure::new(0, moment, "T", "d")],
            snooze_count: 1,
            redrive_generation: Some(0),
            held_since: Some(moment),
            outage_failures: 1,
            held_seconds: 1,
            redrive_count: 1,
            redrive_count_at_answer: 1,
            last_attempt: SpanContext::from_traceparent(
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
            ..retry
        };
        assert_eq!(member_names(&all), OUR_MEMBERS);
    }

    /// A message that failed before may itself be the cause, so its next failure is not evidence of an outage.
    #[test]
    fn failed_calls_include_calls_that_did_not_use_up_an_attempt() {
        let body = r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01"},"data":{}}"#;
        let fresh = MessageSchema::default().parse_envelope(body).unwrap().metadata;
        let metadata = |retry_attempt, error_types: &[&str]| {
            let moment = parse_rfc3339("2026-07-25T17:20:00Z").unwrap();
            let past = |error_type: &&str| PastFailure::new(0, moment, error_type, "");
            let retry_history = error_types.iter().map(past).collect();
            Metadata { retry_attempt, retry_history, ..fresh.clone() }
        };
        assert_eq!(metadata(0, &[]).failed_calls(), 0);
        assert_eq!(metadata(0, &["Redrive", "NotStarted"]).failed_calls(), 0, "neither of these was a call");
        assert_eq!(
            metadata(0, &["RateLimited", "CircuitOpen"]).failed_calls(),
            2,
            "names of the target's own errors"
        );
        assert_eq!(metadata(0, &["HttpStatus.503", "Redrive", "HttpStatus.503"]).failed_calls(), 2);
        assert_eq!(metadata(7, &["HttpStatus.503"; 5]).failed_calls(), 7, "the history holds five");
        assert_eq!(metadata(1, &["HttpStatus.503"; 5]).failed_calls(), 5);
    }
}
