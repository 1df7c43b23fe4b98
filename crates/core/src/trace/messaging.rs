//! The spans of a message, following OpenTelemetry's conventions ("Semantic conventions for AWS SQS").

use std::borrow::Cow;

use super::{Span, SpanContext, SpanKind, SpanValue, TraceLink};
use crate::fault::EntryOutcome;
use crate::limits::DelaySeconds;
use crate::message::{ReceivedMessage, Timestamp};

/// The version of the semantic conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Creates the attributes of an operation on a queue. For SQS, the operation's name and type are the same.
fn queue_attributes<'a>(operation: &'static str, queue: &'a str) -> Vec<(&'static str, SpanValue<'a>)> {
    // Leaves room for the attributes that callers add.
    let mut attributes = Vec::with_capacity(10);
    attributes.extend([
        ("messaging.system", "aws_sqs".into()),
        ("messaging.operation.name", operation.into()),
        ("messaging.operation.type", operation.into()),
        ("messaging.destination.name", queue.into()),
    ]);
    attributes
}

/// Returns the queue's name from its ARN.
fn queue_name(arn: &str) -> &str {
    let start_index = arn.bytes().rposition(|byte| byte == b':').map_or(0, |colon| colon + 1);
    &arn[start_index..]
}

/// The span for sending one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSpan<'a> {
    pub(crate) queue: &'a str,
    /// `hand-off`, `re-send`, `verdict`, `hop` or `final record`.
    pub(crate) name: &'static str,
    pub(crate) delay: DelaySeconds,
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
}

impl<'a> SendSpan<'a> {
    pub(crate) fn into_span(
        self,
        context: SpanContext,
        parent: SpanContext,
        outcome: &'a EntryOutcome<String>,
    ) -> Span<'a> {
        let mut attributes = queue_attributes("send", self.queue);
        attributes.push(("redeliver.send", self.name.into()));
        if self.delay != DelaySeconds::ZERO {
            attributes.push(("redeliver.delay_seconds", u32::from(self.delay.get()).into()));
        }
        if let Ok(id) = outcome {
            attributes.push(("messaging.message.id", id.as_str().into()));
        }
        Span {
            context,
            parent: Some(parent),
            links: Vec::new(),
            name: ["send ", self.queue].concat().into(),
            // Not `Producer`, since the message keeps its producer's context.
            kind: SpanKind::Client,
            start: self.started,
            end: self.ended,
            attributes,
            events: Vec::new(),
            error: outcome.as_ref().err().map(|error| Cow::Borrowed(error.code.as_str())),
        }
    }
}

/// Creates the span for receiving a batch from the queue with this ARN.
#[must_use]
pub fn receive_span(
    context: SpanContext,
    queue_arn: &str,
    messages: u32,
    start: Timestamp,
    end: Timestamp,
) -> Span<'_> {
    let queue = queue_name(queue_arn);
    let mut attributes = queue_attributes("receive", queue);
    attributes.push(("messaging.batch.message_count", messages.into()));
    Span {
        context,
        parent: None,
        links: Vec::new(),
        name: ["receive ", queue].concat().into(),
        kind: SpanKind::Client,
        start,
        end,
        attributes,
        events: Vec::new(),
        error: None,
    }
}

/// The span for processing one message: an attempt, a decision or a dead letter.
#[derive(Clone, Debug)]
pub struct ProcessSpan<'a> {
    pub record: &'a ReceivedMessage,
    /// `metadata.message_id`: the same for all of a message's attempts.
    pub message_id: Option<&'a str>,
    pub parent: Option<SpanContext>,
    pub links: Vec<TraceLink>,
    pub start: Timestamp,
    pub end: Timestamp,
}

impl<'a> ProcessSpan<'a> {
    /// Converts to a span that has no outcome yet.
    #[must_use]
    pub fn into_span(self, context: SpanContext) -> Span<'a> {
        let queue = queue_name(&self.record.queue_arn);
        let mut attributes = queue_attributes("process", queue);
        attributes.push(("messaging.message.id", self.record.sqs_message_id.as_str().into()));
        if let Some(id) = self.message_id {
            attributes.push(("messaging.message.conversation_id", id.into()));
        }
        Span {
            context,
            parent: self.parent,
            links: self.links,
            name: ["process ", queue].concat().into(),
            kind: SpanKind::Consumer,
            start: self.start,
            end: self.end,
            attributes,
            events: Vec::new(),
            error: None,
        }
    }
}
