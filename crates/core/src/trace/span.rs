//! Spans, as OpenTelemetry defines them ("Tracing API", OpenTelemetry Specification).

use std::borrow::Cow;

use crate::message::Timestamp;
use crate::span_context::SpanContext;

/// An ended span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span<'a> {
    pub context: SpanContext,
    /// The parent span in the same trace; `None` for a trace's root span.
    pub parent: Option<SpanContext>,
    pub links: Vec<TraceLink>,
    pub name: Cow<'a, str>,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    /// Attributes, with names from the semantic conventions or `redeliver.…`. They contain no payload and no text from
    /// a target.
    pub attributes: Vec<(&'static str, SpanValue<'a>)>,
    pub events: Vec<SpanEvent>,
    /// `error.type`, if the operation failed.
    pub error: Option<Cow<'a, str>>,
}

impl Span<'_> {
    /// Converts to a span that owns its strings.
    #[must_use]
    pub fn into_owned(self) -> Span<'static> {
        let Self { context, parent, links, name, kind, start, end, attributes, events, error } = self;
        let value = |value| match value {
            SpanValue::Text(text) => SpanValue::Text(Cow::Owned(text.into_owned())),
            SpanValue::Number(number) => SpanValue::Number(number),
        };
        Span {
            context,
            parent,
            links,
            name: Cow::Owned(name.into_owned()),
            kind,
            start,
            end,
            attributes: attributes.into_iter().map(|(name, borrowed)| (name, value(borrowed))).collect(),
            events,
            error: error.map(|error| Cow::Owned(error.into_owned())),
        }
    }
}

/// A link to another span that caused this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLink {
    pub to: SpanContext,
    /// The attribute `redeliver.link`: `producer`, `last_attempt` or `receive`.
    pub role: &'static str,
}

/// An event recorded in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    pub name: &'static str,
    pub at: Timestamp,
    pub attributes: Vec<(&'static str, SpanValue<'static>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work in this process.
    Internal,
    /// A call that waits for a response.
    Client,
    /// The processing of a message.
    Consumer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SpanValue<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl From<String> for SpanValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a str> for SpanValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u32> for SpanValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// The properties shared by the spans of a handler's calls.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSpan<'a> {
    pub name: Cow<'a, str>,
    pub kind: SpanKind,
    pub attributes: Vec<(&'static str, SpanValue<'a>)>,
}

/// The properties for a handler in this process.
impl Default for CallSpan<'_> {
    fn default() -> Self {
        Self { name: "handle".into(), kind: SpanKind::Internal, attributes: Vec::new() }
    }
}
