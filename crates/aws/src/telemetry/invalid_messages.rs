//! The log line `all_invalid`, written once if all messages in a batch or an environment are invalid, which suggests
//! that a setting is wrong.

use redeliver_core::events::Event;
use redeliver_core::message::all_invalid::{
    DEPLOYED_SETTING, INVALID_CODES, are_all_invalid, describe_all_invalid,
};
use serde::Serialize;

/// Counts of invalid messages and of all messages.
#[derive(Debug, Default)]
pub(super) struct InvalidMessages {
    batch: OutcomeCounts,
    environment: OutcomeCounts,
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct OutcomeCounts {
    invalid: u64,
    all: u64,
}

/// The fields of the `all_invalid` line.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct AllInvalidLine {
    messages: u64,
    remedy: String,
}

impl OutcomeCounts {
    /// Returns the counts that an event reports.
    fn from_event(event: &Event) -> Self {
        match event {
            Event::GivenUp { error_type, .. } | Event::Blocked { error_type, .. } => {
                Self { invalid: INVALID_CODES.contains(error_type).into(), all: 1 }
            }
            Event::Processed { .. } | Event::HandedOff { .. } | Event::RetryScheduled { .. } => {
                Self { invalid: 0, all: 1 }
            }
            Event::Held { messages, .. }
            | Event::NotNow { messages, .. }
            | Event::RateLimited { messages, .. } => Self { invalid: 0, all: (*messages).into() },
            _ => Self::default(),
        }
    }

    fn add(&mut self, Self { invalid, all }: Self) {
        self.invalid += invalid;
        self.all += all;
    }

    fn count_if_all_invalid(self) -> Option<u64> {
        are_all_invalid(self.invalid, self.all).then_some(self.all)
    }
}

impl InvalidMessages {
    pub(super) fn add_event(&mut self, event: &Event) {
        self.count_outcomes(OutcomeCounts::from_event(event));
    }

    fn count_outcomes(&mut self, outcomes: OutcomeCounts) {
        self.batch.add(outcomes);
        self.environment.add(outcomes);
    }

    /// Ends a batch. Returns the line to log, at most once per environment.
    pub(super) fn end_batch(&mut self) -> Option<AllInvalidLine> {
        let batch = std::mem::take(&mut self.batch);
        let messages = self.environment.count_if_all_invalid().or_else(|| batch.count_if_all_invalid())?;
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        (!is_reported)
            .then(|| AllInvalidLine { messages, remedy: describe_all_invalid(messages, DEPLOYED_SETTING) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message count in the line after each batch, or 0 if there is no line.
    fn lines_after_batches<const N: usize>(batches: [(u64, u64); N]) -> [u64; N] {
        let mut messages = InvalidMessages::default();
        batches.map(|(invalid, all)| {
            messages.count_outcomes(OutcomeCounts { invalid, all });
            messages.end_batch().map_or(0, |line| line.messages)
        })
    }

    #[test]
    fn a_batch_with_only_invalid_messages_is_reported_once() {
        assert_eq!(lines_after_batches([(0, 3), (9, 9), (10, 11), (10, 10), (10, 10)]), [0, 0, 0, 10, 0]);
    }

    #[test]
    fn every_message_is_counted_once_by_its_final_event_in_the_batch() {
        let given_up = |error_type| Event::GivenUp {
            message_id: None,
            sqs_message_id: String::new(),
            error_type,
            request_id: None,
        };
        let blocked = |error_type| Event::Blocked {
            message_id: None,
            sqs_message_id: String::new(),
            error_type,
            request_id: None,
        };
        let held = Event::Held { messages: 7, open_seconds: 1.0, longest_hold_seconds: 1 };
        let not_now = Event::NotNow { messages: 8, error_type: String::new(), longest_hold_seconds: 1 };
        let limited = Event::RateLimited { messages: 9, limited_seconds: 1.0, longest_hold_seconds: 1 };
        let again = Event::RetriedImmediately {
            message_id: String::new(),
            retry_attempt: 0,
            error_type: String::new(),
        };
        for (event, invalid, all) in [
            (given_up("INVALID_MESSAGE_FORMAT"), 1, 1),
            (given_up("INVALID_MESSAGE_SCHEMA"), 1, 1),
            (given_up("MESSAGE_EXPIRED"), 0, 1),
            (blocked("INVALID_MESSAGE_FORMAT"), 1, 1),
            (blocked("MESSAGE_EXPIRED"), 0, 1),
            (held, 0, 7),
            (not_now, 0, 8),
            (limited, 0, 9),
            (again, 0, 0),
        ] {
            let counted = OutcomeCounts::from_event(&event);
            assert_eq!((counted.invalid, counted.all), (invalid, all), "{event:?}");
        }
    }

    #[test]
    fn an_environment_without_valid_messages_is_reported_after_ten_messages() {
        assert_eq!(lines_after_batches([(4, 4), (5, 5), (0, 0), (2, 2), (2, 2)]), [0, 0, 0, 11, 0]);
    }
}
