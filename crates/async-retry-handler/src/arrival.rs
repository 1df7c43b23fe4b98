//! A record of the retry queue, and the messages that it becomes.

use redeliver_core::async_retry::{FailedInvocation, NotADestinationRecord};
use redeliver_core::decision::GiveUp;
use redeliver_core::delivery::Outgoing;
use redeliver_core::events::{Event, GivenUp};
use redeliver_core::failure::{Delivery, Failure, Stage};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, ReceivedMessage, Timestamp};
use redeliver_core::reason::DeadLetterReason;

/// A record, its attributes taken apart: Lambda sends none, but whatever relays its records may.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Without attributes.
    pub(super) record: ReceivedMessage,
    /// Those that are not ours.
    pub(super) producer: Attributes,
}

impl Arrival {
    /// The last error of the invocation that failed, and the retries made, should it be given up.
    pub(super) fn failure(&self, failed: &FailedInvocation<'_>) -> Failure {
        let delivery = self.delivery(failed.failed_at, failed.first_failed_at);
        Failure { attempts: Some(failed.retries_made), ..Failure::of_handler(&failed.error, &delivery) }
    }

    /// The record as it is, on its own queue again. All that its due time follows from is in it.
    pub(super) fn hop(self, delay: DelaySeconds) -> Box<Outgoing> {
        let Self { record, producer } = self;
        outgoing(record, producer, delay, None)
    }

    /// The record with a verdict. What it is about can be read from it as from a message that is given up.
    pub(super) fn verdict(
        self,
        request_id: Option<String>,
        failure: Failure,
        GiveUp { reason, explanation }: GiveUp,
    ) -> Box<Outgoing> {
        let Self { record, producer } = self;
        let given_up = Event::GivenUp(GivenUp {
            message_id: request_id,
            sqs_message_id: record.sqs_message_id.clone(),
            error_type: reason.as_str(),
        });
        let failure =
            Failure { verdict: Some(reason), stage: Some(Stage::AsyncRetryHandler), explanation, ..failure };
        let attributes = failure.beside_folding(&producer, record.body.len());
        outgoing(record, attributes, DelaySeconds::ZERO, given_up)
    }

    /// The verdict on what no retry can be made from.
    pub(super) fn not_a_record(self, wrong: &NotADestinationRecord, now: Timestamp) -> Box<Outgoing> {
        let reason = DeadLetterReason::InvalidMessageFormat;
        let failure = Failure {
            error_type: reason.as_str().to_owned(),
            details: wrong.to_string(),
            ..Failure::of_delivery(&self.delivery(now, self.record.sent_at))
        };
        self.verdict(None, failure, GiveUp { reason, explanation: String::new() })
    }

    fn delivery(&self, failed_at: Timestamp, first_sent: Timestamp) -> Delivery {
        Delivery {
            failed_at,
            source_message_id: self.record.sqs_message_id.clone(),
            source_queue_arn: self.record.queue_arn.clone(),
            sent_at: first_sent,
            came_back: false,
        }
    }
}

fn outgoing(
    record: ReceivedMessage,
    attributes: Attributes,
    delay: DelaySeconds,
    confirmed: impl Into<Option<Event>>,
) -> Box<Outgoing> {
    let content = Content {
        body: record.body,
        attributes,
        message_group_id: record.message_group_id,
        trace_header: record.trace_header,
        delay,
    };
    Box::new(Outgoing::new(record.sqs_message_id, content, confirmed))
}
