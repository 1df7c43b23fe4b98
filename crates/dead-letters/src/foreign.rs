//! Recognizes dead letters written by AWS services and frameworks, solely by their documented formats.
//!
//! Any sender can forge such a message. Its fields are shown and used for grouping, never acted on.

mod attributes;
mod frameworks;
mod name;
mod record;
mod subscriber;
#[cfg(test)]
mod tests;
mod topic;

use redeliver_core::failure::annotation::{ERROR_DETAILS_BYTES_MAX, compute_fingerprint};
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::truncate::{ERROR_TYPE_BYTES_MAX, clean_and_cut_middle, clean_text};
use serde::Deserialize;

use crate::groups::format_timestamp;
use name::resource_name;

/// The maximum length of an ARN, in bytes; no real ARN is that long.
const ARN_BYTES_MAX: usize = 2048;

/// A dead letter written by an AWS service or a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignDeadLetter {
    pub writer: ForeignWriter,
    /// The ARN of the failed function, rule, subscriber, schedule or pipe, or of the topic or queue that the message
    /// came from. Empty if unknown.
    pub source: String,
    /// The error type; empty if there is none.
    pub error_type: String,
    /// The error message; empty if there is none.
    pub message: String,
    /// AWS's reason for ending the retries: `RetriesExhausted`, `MaximumEventAgeInSeconds`.
    pub condition: Option<String>,
    /// The number of retries, if the message records it.
    pub attempts: Option<u32>,
    /// The timestamp at which the writer gave up on the message, if recorded.
    pub failed_at: Option<Timestamp>,
    /// The referenced records, which are not in the message itself.
    pub batch: Option<StreamBatch>,
    /// The referenced events, which are not in the message itself.
    pub events: Option<BusEvents>,
    /// True if the body is truncated.
    pub truncated: bool,
}

/// The service or framework that wrote a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignWriter {
    /// An on-failure destination for asynchronous invocations.
    LambdaDestination,
    /// A function's own DLQ.
    LambdaDlq,
    /// An on-failure destination of an event source mapping that reads a stream.
    LambdaStream,
    /// An on-failure destination of an event source mapping that reads Kafka, or another source that keeps its records.
    LambdaEventSource,
    /// The DLQ of a rule's target, or of an event bus.
    EventBridge,
    /// The DLQ of a subscriber of a custom event bus (`eventsv2`).
    EventBridgeSubscriber,
    Scheduler,
    /// The DLQ of a pipe that reads a stream.
    Pipes,
    /// The DLQ of a subscription.
    Sns,
    /// SQS itself, according to a queue's redrive policy.
    Sqs,
    MassTransit,
    NServiceBus,
    Rebus,
    Celery,
    Dramatiq,
    ActiveJob,
    Sidekiq,
    Faktory,
    Resque,
    Laravel,
}

/// Records from a stream or a topic, which retains them for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch {
    pub stream: Stream,
    pub stream_arn: String,
    /// The shard, or the partitions of a topic: `orders-0, orders-3`. Empty if unknown.
    pub shard: String,
    /// The sequence number, or the offset in a topic. Empty if unknown, or if there are several partitions.
    pub first_sequence_number: String,
    pub last_sequence_number: String,
    pub records: u64,
    /// The arrival timestamp of the first record in the stream.
    pub first_arrival: Option<Timestamp>,
}

/// Events from a custom event bus, which retains them for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusEvents {
    pub bus_arn: String,
    pub events: u64,
    /// The timestamps of the earliest and the latest event.
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
}

/// The kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Kinesis,
    DynamoDb,
    Kafka,
    /// A DocumentDB change stream, or a source that Lambda started to support later.
    Other,
}

impl ForeignWriter {
    /// Returns the error type to show.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::LambdaDestination => "LAMBDA_DESTINATION",
            Self::LambdaDlq => "LAMBDA_DLQ",
            Self::LambdaStream => "LAMBDA_STREAM_BATCH",
            Self::EventBridge => "EVENTBRIDGE_DLQ",
            Self::EventBridgeSubscriber => "EVENTBRIDGE_SUBSCRIBER_BATCH",
            Self::Scheduler => "SCHEDULER_DLQ",
            Self::Pipes => "PIPES_STREAM_BATCH",
            Self::Sns => "SNS_DLQ",
            Self::Sqs => "SQS_REDRIVE",
            Self::LambdaEventSource => "LAMBDA_EVENT_SOURCE_BATCH",
            Self::MassTransit => "MASSTRANSIT_FAULT",
            Self::NServiceBus => "NSERVICEBUS_FAULT",
            Self::Rebus => "REBUS_FAULT",
            Self::Celery => "CELERY_TASK",
            Self::Dramatiq => "DRAMATIQ_MESSAGE",
            Self::ActiveJob => "ACTIVE_JOB",
            Self::Sidekiq => "SIDEKIQ_JOB",
            Self::Faktory => "FAKTORY_JOB",
            Self::Resque => "RESQUE_JOB",
            Self::Laravel => "LARAVEL_JOB",
        }
    }
}

impl ForeignDeadLetter {
    /// Reads a message, or returns `None` if it is not in a documented format.
    #[must_use]
    pub fn from_message(message: &ReceivedMessage) -> Option<Self> {
        let found = subscriber::read_subscriber_record(&message.body)
            .or_else(|| attributes::read_attributes(message))
            .or_else(|| record::read_record(&message.body))
            .or_else(|| frameworks::read_framework(message))
            // SQS moved the message because a consumer of its queue failed, so SNS did deliver it.
            .or_else(|| read_moved_message(message))
            .or_else(|| topic::read_notification(&message.body))?;
        Some(found.truncate_text_fields())
    }

    /// Returns the source without its account id.
    #[must_use]
    pub fn source_name(&self) -> &str {
        resource_name(&self.source)
    }

    fn new(writer: ForeignWriter, source: impl Into<String>) -> Self {
        Self {
            writer,
            source: source.into(),
            error_type: String::new(),
            message: String::new(),
            condition: None,
            attempts: None,
            failed_at: None,
            batch: None,
            events: None,
            truncated: false,
        }
    }

    /// Truncates text written by other programs, which can be as long as a message.
    fn truncate_text_fields(self) -> Self {
        let clean_name = |text: &str| clean_text(text, ERROR_TYPE_BYTES_MAX);
        Self {
            source: clean_text(&self.source, ARN_BYTES_MAX),
            error_type: clean_name(&self.error_type),
            message: clean_and_cut_middle(&self.message, ERROR_DETAILS_BYTES_MAX),
            condition: self.condition.as_deref().map(clean_name),
            batch: self.batch.map(|batch| StreamBatch {
                stream_arn: clean_text(&batch.stream_arn, ARN_BYTES_MAX),
                shard: clean_name(&batch.shard),
                first_sequence_number: clean_name(&batch.first_sequence_number),
                last_sequence_number: clean_name(&batch.last_sequence_number),
                ..batch
            }),
            events: self
                .events
                .map(|events| BusEvents { bus_arn: clean_text(&events.bus_arn, ARN_BYTES_MAX), ..events }),
            ..self
        }
    }

    /// Formats the failed source, its error, and the reason for ending the retries as one line.
    #[must_use]
    pub fn details(&self) -> String {
        let batch = self.batch.as_ref().map(StreamBatch::describe_records).unwrap_or_default();
        let events = self.events.as_ref().map(BusEvents::describe_events).unwrap_or_default();
        let parts = [self.source_name(), &self.error_type, &self.message, &batch, &events];
        let known: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let condition = self.condition.as_ref().map(|condition| format!(" ({condition})"));
        clean_and_cut_middle(&(known.join(": ") + &condition.unwrap_or_default()), ERROR_DETAILS_BYTES_MAX)
    }

    /// Returns the fingerprint of the writer, source and error, ignoring ids and numbers in the text.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let stream = self.batch.as_ref().map_or("", |batch| &batch.stream_arn);
        let condition = self.condition.as_deref().unwrap_or_default();
        let source_and_error = [self.source.as_str(), &self.error_type, condition, stream].join("\n");
        compute_fingerprint(self.writer.code(), &source_and_error, &self.message)
    }

    /// Returns warnings to show before the message is sent back: when its records or events expire, and that its body
    /// is truncated. Empty for most messages.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let truncated =
            self.truncated.then(|| "Its body is truncated: part of the original is missing.".to_owned());
        let elsewhere = self
            .batch
            .as_ref()
            .map(StreamBatch::record_retention)
            .or_else(|| self.events.as_ref().map(BusEvents::event_retention));
        elsewhere.into_iter().chain(truncated).collect()
    }
}

impl StreamBatch {
    /// Returns the earliest time at which the first record may be deleted from its stream: 24 hours after its arrival,
    /// the default for Kinesis and the fixed retention for DynamoDB ("Changing the data retention period", Amazon
    /// Kinesis Data Streams Developer Guide; "Change data capture for DynamoDB Streams").
    ///
    /// Returns `None` for other sources, whose retention is configurable, and if the arrival time is unknown.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        let is_known = matches!(self.stream, Stream::Kinesis | Stream::DynamoDb);
        self.first_arrival.filter(|_| is_known)?.checked_add_signed(chrono::TimeDelta::hours(24))
    }

    fn describe_records(&self) -> String {
        let records = if self.records == 1 { "record" } else { "records" };
        let place = [resource_name(&self.stream_arn), &self.shard];
        let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} {records} of {}", self.records, place.join(", "))
    }

    fn record_retention(&self) -> String {
        let until = match (self.stream, self.expires_at().map(format_timestamp)) {
            (Stream::Kafka, _) => "the topic keeps them for its own retention".to_owned(),
            (Stream::Other, _) => "the source keeps them for its own retention".to_owned(),
            (_, None) => "the stream keeps them for 24 hours unless its retention is longer".to_owned(),
            (Stream::DynamoDb, Some(at)) => format!("DynamoDB starts to delete them at {at}"),
            (Stream::Kinesis, Some(at)) => {
                format!(
                    "Kinesis starts to delete them at {at}, unless the stream keeps them longer than 24 hours"
                )
            }
        };
        let numbers = if self.stream == Stream::Kafka { "offsets" } else { "sequence numbers" };
        let (first, last) = (&self.first_sequence_number, &self.last_sequence_number);
        let range = if first.is_empty() { String::new() } else { format!("{numbers} {first} to {last}") };
        let place = [self.stream_arn.clone(), self.shard.clone(), range];
        let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).collect();
        format!("Its records are not in this message but in {}: {until}.", place.join(", "))
    }
}

impl BusEvents {
    /// Returns the earliest time at which the first event may be deleted from its bus: after 24 hours, the default; a
    /// bus can be set to keep events for up to 365 days ("Creating a bus", Amazon EventBridge User Guide). `None` if
    /// the time is unknown.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.first_at?.checked_add_signed(chrono::TimeDelta::hours(24))
    }

    fn describe_events(&self) -> String {
        let events = if self.events == 1 { "event" } else { "events" };
        format!("{} {events} of {}", self.events, resource_name(&self.bus_arn))
    }

    /// Describes how long the bus keeps the events. To deliver events again, AWS recommends a new subscriber ("Retry
    /// policies and dead-letter queues").
    fn event_retention(&self) -> String {
        let (range, until) = match (self.first_at, self.last_at, self.expires_at()) {
            (Some(first), Some(last), Some(end)) => (
                format!(", from {} to {}", format_timestamp(first), format_timestamp(last)),
                format!(
                    "the bus starts to delete them at {}, unless it keeps them longer than 24 hours",
                    format_timestamp(end)
                ),
            ),
            _ => (String::new(), "the bus keeps them for 24 hours unless its retention is longer".to_owned()),
        };
        format!(
            "Its events are not in this message but on {}{range}: {until}. To deliver them again, create a subscriber \
             that starts at the first and filters by their `aws:EventId`, which the body names (`--reveal`).",
            self.bus_arn
        )
    }
}

/// Parses only objects: serde would also read a struct from an array.
fn parse_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if text.trim_start().starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

/// The error message for a message that SQS moved from its queue.
const MOVED_BY_SQS: &str = "its consumers did not delete it, so SQS moved it";

fn read_moved_message(message: &ReceivedMessage) -> Option<ForeignDeadLetter> {
    let from = message.redriven_from.as_ref()?;
    Some(ForeignDeadLetter {
        message: MOVED_BY_SQS.to_owned(),
        ..ForeignDeadLetter::new(ForeignWriter::Sqs, from)
    })
}
