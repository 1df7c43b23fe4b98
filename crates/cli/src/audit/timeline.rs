//! What happened to a message: sent, each failure that its history tells of, given up.

use redeliver_core::message::Timestamp;
use redeliver_core::metadata::parse_rfc3339;

use super::attempts::skipped;
use crate::dead_letters::DeadLetterRecord;

/// A message's story in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    pub(super) events: Vec<Event>,
    /// Attempts that nothing is known of.
    pub(super) skipped: Vec<u32>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: Kind,
    /// Where it can be read.
    pub(super) at: Option<Timestamp>,
    /// The error's name.
    pub(super) error_type: String,
    /// The error's text.
    pub(super) error_details: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It was first sent.
    Sent,
    /// This attempt failed; 0 is the first.
    Failed(u32),
    /// It was given up.
    GivenUp,
    /// It came to this queue; who gave it up did not say.
    Arrived,
}

impl Timeline {
    pub(super) fn of(record: &DeadLetterRecord) -> Self {
        let sent = Event {
            kind: Kind::Sent,
            at: Some(record.first_sent()),
            error_type: String::new(),
            error_details: String::new(),
        };
        let history = record.metadata.iter().flat_map(|told| &told.retry_history);
        let failures = history.map(|past| Event {
            kind: Kind::Failed(past.attempt),
            at: parse_rfc3339(&past.failed_at),
            error_type: past.error_type.clone(),
            error_details: past.error_details.clone(),
        });
        let end = match &record.dead_letter {
            Some(ours) => Event {
                kind: Kind::GivenUp,
                at: parse_rfc3339(&ours.dead_lettered_at),
                error_type: ours.cause.error_type.clone(),
                error_details: ours.cause.message.clone(),
            },
            None => Event {
                kind: Kind::Arrived,
                at: Some(record.message.sent_at),
                error_type: record.error_type.clone(),
                error_details: record.error_details.clone(),
            },
        };
        Self {
            events: std::iter::once(sent).chain(failures).chain([end]).collect(),
            skipped: skipped(record),
        }
    }

    /// The attempts that nothing is known of, in a sentence.
    pub(super) fn gap(&self) -> Option<String> {
        let attempts: Vec<_> =
            self.skipped.iter().take(10).map(|attempt| (attempt + 1).to_string()).collect();
        let more = if self.skipped.len() > attempts.len() { ", …" } else { "" };
        (!attempts.is_empty()).then(|| format!("Nothing is known of attempt {}{more}.", attempts.join(", ")))
    }
}

impl Kind {
    /// In words; attempts are counted from 1, as people do.
    pub(super) fn words(self) -> String {
        match self {
            Self::Sent => "first sent".to_owned(),
            Self::Failed(attempt) => format!("attempt {} failed", attempt.saturating_add(1)),
            Self::GivenUp => "given up".to_owned(),
            Self::Arrived => "in this queue".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{foreign, record, retried};

    #[test]
    fn a_timeline_goes_from_the_first_send_over_the_failures_to_the_end() {
        let timeline = Timeline::of(&record("RETRY_ATTEMPT_EXCEEDED", "too often", 1));
        let story: Vec<_> = timeline
            .events
            .iter()
            .map(|event| {
                (
                    event.kind.words(),
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
        assert_eq!(timeline.gap(), None);
    }

    #[test]
    fn a_foreign_message_was_sent_and_is_here_and_gaps_are_told() {
        let kinds: Vec<_> = Timeline::of(&foreign("x", 1)).events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::Sent, Kind::Arrived]);
        let gap = Timeline::of(&retried(3, &[1])).gap();
        assert_eq!(gap.as_deref(), Some("Nothing is known of attempt 1, 3."));
    }
}
