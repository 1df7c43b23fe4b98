//! The delivery that failed, and whether it was the first of a new generation.

use crate::message::metadata::Metadata;
use crate::message::origin::Origin;
use crate::message::{ReceivedMessage, Timestamp};

/// What is known of a delivery whatever happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub failed_at: Timestamp,
    /// SQS's id of the message on the source queue.
    pub source_message_id: String,
    /// Where it was received.
    pub source_queue_arn: String,
    /// `SentTimestamp` of that delivery: a hand-off is a new SQS message with a clock of its own.
    pub sent_at: Timestamp,
    /// It came back from the final DLQ.
    pub came_back: Option<CameBack>,
    /// Who sent it.
    pub origin: Origin,
}

/// A message came back from the final DLQ as it was. The later generation is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CameBack {
    /// The generation in its final record, if there is one.
    pub generation_before: Option<u32>,
}

impl Delivery {
    /// The one that a record was received with.
    #[must_use]
    pub fn of(
        record: &ReceivedMessage,
        came_back: Option<CameBack>,
        origin: Origin,
        failed_at: Timestamp,
    ) -> Self {
        Self {
            failed_at,
            source_message_id: record.sqs_message_id.clone(),
            source_queue_arn: record.queue_arn.clone(),
            sent_at: record.sent_at,
            came_back,
            origin,
        }
    }

    /// When it failed; never later than `now`, since clocks differ.
    #[must_use]
    pub fn failed_at(&self, now: Timestamp) -> Timestamp {
        self.failed_at.min(now)
    }
}

/// What a body says of its message: until its next re-send it still says the generation before.
#[must_use]
pub fn in_its_generation(metadata: Metadata, came_back: Option<CameBack>) -> Metadata {
    match came_back {
        Some(CameBack { generation_before }) => metadata.into_next_generation(generation_before),
        None => metadata,
    }
}
