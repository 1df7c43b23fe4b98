//! The timeline of a message: its first send, each failure in its history, and its final event.

use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::{HISTORY_MAX, parse_rfc3339};
use redeliver_dead_letters::{DeadLetterRecord, ForeignDeadLetter};

use crate::terminal::units::{format_count, format_span};

/// The events of a message, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub events: Vec<TimelineEvent>,
    /// The attempts missing from the history.
    pub skipped: Vec<u32>,
    /// The total time for which the message was held.
    held_seconds: u32,
    /// The number of times the message was received again after an SQS redrive.
    redrive_count: u32,
    /// Remarks about a dead letter that an AWS service or a framework wrote.
    remarks: Vec<String>,
}

/// A point on the timeline. A failure includes its error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEvent {
    pub kind: TimelineEventKind,
    /// `None` if the timestamp cannot be parsed.
    pub at: Option<Timestamp>,
    pub error_type: String,
    pub error_details: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineEventKind {
    Sent,
    /// The number of the failed attempt; 0 is the first.
    Failed(u32),
    GivenUp,
    /// SQS moved the message to this queue at an unknown time.
    Redriven,
    /// The message was sent to this queue and carries no reason.
    SentHere,
}

impl Timeline {
    /// Builds the timeline of a dead letter, oldest event first: its first send, at most the last five failures, and
    /// its final event.
    pub fn for_record(record: &DeadLetterRecord) -> Self {
        let history = record.metadata.iter().flat_map(|metadata| &metadata.retry_history);
        let failures = history.map(|past| {
            let failed_at = parse_rfc3339(&past.failed_at);
            TimelineEvent::new(
                TimelineEventKind::Failed(past.attempt),
                failed_at,
                &past.error_type,
                &past.error_details,
            )
        });
        let (sent_at, details) = (record.message.sent_at, &record.error_details);
        // The most detailed source available: redeliver's record, otherwise the fact that SQS redrove the message,
        // otherwise another service's record.
        let (start, end) = if let Some(ours) = &record.dead_letter {
            let (given_up_at, cause) = (parse_rfc3339(&ours.dead_lettered_at), &ours.cause);
            let given_up = TimelineEvent::new(
                TimelineEventKind::GivenUp,
                given_up_at,
                &cause.error_type,
                &cause.message,
            );
            (Some(record.first_sent_at()), given_up)
        } else if record.message.redriven_from.is_some() {
            // A redrive preserves the first queue's `SentTimestamp`.
            (Some(sent_at), TimelineEvent::new(TimelineEventKind::Redriven, None, "", details))
        } else if let Some(ForeignDeadLetter { error_type, message, failed_at, .. }) = &record.foreign {
            // The failure time recorded by the service, or else the arrival time.
            (
                None,
                TimelineEvent::new(
                    TimelineEventKind::GivenUp,
                    failed_at.or(Some(sent_at)),
                    error_type,
                    message,
                ),
            )
        } else {
            (None, TimelineEvent::new(TimelineEventKind::SentHere, Some(sent_at), "", details))
        };
        let sent = start.map(|at| TimelineEvent::new(TimelineEventKind::Sent, Some(at), "", ""));
        let events = sent.into_iter().chain(failures).chain([end]).collect();
        let (held_seconds, redrive_count) = (record.held_seconds(), record.redrive_count());
        let remarks = record.foreign.as_ref().map(ForeignDeadLetter::remarks).unwrap_or_default();
        Self { events, skipped: skipped_attempts(record), held_seconds, redrive_count, remarks }
    }

    /// Returns sentences about facts without a timestamp: the total hold time, the number of times the message was
    /// received again after an SQS redrive, and remarks on another service's record.
    pub fn summary_sentences(&self) -> Vec<String> {
        let held = (self.held_seconds > 0).then(|| {
            let held = format_span(self.held_seconds.into());
            format!("It was held for {held} in total, without a call, because its target was down.")
        });
        let moved = (self.redrive_count > 0).then(|| {
            let times = format_count(self.redrive_count.into(), "time");
            format!("It came back {times} after SQS had moved it without a recorded outcome.")
        });
        held.into_iter().chain(moved).chain(self.remarks.iter().cloned()).collect()
    }

    /// Returns a sentence about attempts missing from the history, if any.
    pub fn describe_gap(&self) -> Option<String> {
        let attempts: Vec<_> =
            self.skipped.iter().take(10).map(|attempt| (attempt + 1).to_string()).collect();
        let more = if self.skipped.len() > attempts.len() { ", …" } else { "" };
        (!attempts.is_empty())
            .then(|| format!("The history has no record of attempt {}{more}.", attempts.join(", ")))
    }
}

impl TimelineEvent {
    fn new(kind: TimelineEventKind, at: Option<Timestamp>, error_type: &str, error_details: &str) -> Self {
        Self { kind, at, error_type: error_type.to_owned(), error_details: error_details.to_owned() }
    }
}

impl TimelineEventKind {
    /// Returns a short description, such as `attempt 1 failed`. Attempts are counted from 1.
    pub fn describe(self) -> String {
        match self {
            Self::Sent => "first sent".to_owned(),
            Self::Failed(attempt) => format!("attempt {} failed", attempt.saturating_add(1)),
            Self::GivenUp => "given up".to_owned(),
            Self::Redriven => "moved here".to_owned(),
            Self::SentHere => "sent here".to_owned(),
        }
    }
}

/// Returns the attempts before `retry_attempt` that are unexpectedly missing from the history. A history of five
/// entries is checked from its oldest entry, since older ones may have been dropped; a shorter one is checked from
/// attempt 0. (A history is also shortened near the size limit; in that case, the returned attempts were made but are
/// no longer recorded.)
pub fn skipped_attempts(record: &DeadLetterRecord) -> Vec<u32> {
    let Some(metadata) = &record.metadata else {
        return Vec::new();
    };
    let history = &metadata.retry_history;
    let first = match history.first() {
        Some(oldest) if history.len() >= HISTORY_MAX => oldest.attempt,
        _ => 0,
    };
    (first..metadata.retry_attempt)
        .filter(|attempt| history.iter().all(|past| past.attempt != *attempt))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::examples::{foreign_record, retried_record, sample_record};

    #[test]
    fn a_timeline_has_the_first_send_the_failures_and_the_final_event() {
        let timeline = Timeline::for_record(&sample_record("RETRY_ATTEMPT_EXCEEDED", "too often", 1));
        let story: Vec<_> = timeline
            .events
            .iter()
            .map(|event| {
                (
                    event.kind.describe(),
                    event.at.unwrap().timestamp(),
                    event.error_type.as_str(),
                    event.error_details.as_str(),
                )
            })
            .collect();
        assert_eq!(
            story,
            [
                ("first sent".to_owned(), 0, "", ""),
                ("attempt 1 failed".to_owned(), 60, "Http.Timeout", "slow 0"),
                ("attempt 2 failed".to_owned(), 120, "Http.Timeout", "slow 1"),
                ("given up".to_owned(), 600, "HttpStatus.503", "too often"),
            ]
        );
        assert_eq!(timeline.describe_gap(), None);
    }

    #[test]
    fn a_foreign_messages_timeline_has_only_known_events() {
        let story = |record: &DeadLetterRecord| {
            let events = Timeline::for_record(record).events.into_iter();
            events.map(|event| (event.kind, event.at.map(|at| at.timestamp()))).collect::<Vec<_>>()
        };
        let mut record = foreign_record("x", 1);
        assert_eq!(story(&record), [(TimelineEventKind::SentHere, Some(0))]);
        record.message.redriven_from = Some("arn:source".to_owned());
        assert_eq!(story(&record), [(TimelineEventKind::Sent, Some(0)), (TimelineEventKind::Redriven, None)]);
        assert_eq!(
            story(&retried_record(1, &[0])),
            [(TimelineEventKind::Failed(0), Some(60)), (TimelineEventKind::SentHere, Some(0))]
        );
    }

    #[test]
    fn the_timeline_summarizes_holds_and_sqs_redrives() {
        let mut record = sample_record("MESSAGE_EXPIRED", "too old", 1);
        assert_eq!(Timeline::for_record(&record).summary_sentences(), [""; 0]);
        let ours = record.dead_letter.as_mut().unwrap();
        (ours.held_seconds, ours.redrive_count) = (Some(11_520), Some(1));
        assert_eq!(
            Timeline::for_record(&record).summary_sentences(),
            [
                "It was held for 3h 12m in total, without a call, because its target was down.",
                "It came back 1 time after SQS had moved it without a recorded outcome."
            ]
        );
        let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001","held_seconds":60,"redrive_count":2},"data":{}}"#;
        let foreign = foreign_record(body, 1);
        assert_eq!(
            Timeline::for_record(&foreign).summary_sentences(),
            [
                "It was held for 1m in total, without a call, because its target was down.",
                "It came back 2 times after SQS had moved it without a recorded outcome."
            ],
            "without our document, the body has these facts"
        );
    }

    #[test]
    fn the_timeline_describes_missing_attempts() {
        let gap = Timeline::for_record(&retried_record(3, &[1])).describe_gap();
        assert_eq!(gap.as_deref(), Some("The history has no record of attempt 1, 3."));
    }

    #[test]
    fn a_missing_attempt_counts_as_skipped_unless_its_entry_was_dropped() {
        for (retry_attempt, history, expected) in [
            (0, &[][..], &[][..]),
            (2, &[0, 1], &[]),
            (3, &[0, 2], &[1]),
            (3, &[1, 2], &[0]),
            (2, &[], &[0, 1]),
            (7, &[2, 3, 4, 5, 6], &[]),
            (7, &[1, 3, 4, 5, 6], &[2]),
            (2, &[0, 0, 1], &[]), // a snooze is a failure that does not count as an attempt
        ] {
            assert_eq!(
                skipped_attempts(&retried_record(retry_attempt, history)),
                expected,
                "{retry_attempt} {history:?}"
            );
        }
        assert_eq!(skipped_attempts(&foreign_record("plain", 1)), Vec::<u32>::new());
    }
}
