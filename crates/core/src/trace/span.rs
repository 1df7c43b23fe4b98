//! Spans, as OpenTelemetry defines them ("Tracing API", OpenTelemetry Specification).

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use crate::message::Timestamp;

/// The identity of a span, as small as it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanContext {
    /// Not 0.
    pub trace_id: u128,
    /// Not 0.
    pub span_id: u64,
    /// False for a trace that nobody records.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Parses W3C's `traceparent`; `None` if it is invalid ("Trace Context", W3C).
    #[must_use]
    pub fn of_traceparent(text: &str) -> Option<Self> {
        let (version, rest) = text.split_once('-')?;
        let (trace_id, rest) = rest.split_once('-')?;
        let (span_id, rest) = rest.split_once('-')?;
        let (flags, more) = rest.split_once('-').map_or((rest, None), |(flags, more)| (flags, Some(more)));
        let is_known = version != "00" || more.is_none();
        if !(is_hex(version, 2) && version != "ff" && is_hex(flags, 2) && is_known) {
            return None;
        }
        Some(Self {
            trace_id: id(trace_id, 32)?,
            span_id: u64::try_from(id(span_id, 16)?).ok()?,
            is_sampled: u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1),
        })
    }

    /// Parses `traceparent` as a JSON string. Anything else counts as absent: a broken link must not cost a message.
    pub(crate) fn of_json(text: &str) -> Option<Self> {
        Self::of_traceparent(&serde_json::from_str::<Cow<'_, str>>(text).ok()?)
    }

    /// The header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let mut text = String::with_capacity(55);
        text.push_str("00-");
        push_hex(&mut text, &self.trace_id.to_be_bytes());
        text.push('-');
        push_hex(&mut text, &self.span_id.to_be_bytes());
        text.push_str(if self.is_sampled { "-01" } else { "-00" });
        text
    }

    /// The trace's id: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The trace's id as X-Ray writes it.
    #[must_use]
    pub fn xray_trace_id(&self) -> String {
        format!("1-{:08x}-{:024x}", self.trace_id >> 96, self.trace_id & ((1 << 96) - 1))
    }
}

/// As the header `traceparent`.
impl Serialize for SpanContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.traceparent())
    }
}

/// Faster than the standard library's formatting, which took a fifth of what a span costs a failure.
fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// An id of this many lower-case hexadecimal digits, not all 0.
pub(super) fn id(text: &str, digits: usize) -> Option<u128> {
    let id = is_hex(text, digits).then(|| u128::from_str_radix(text, 16).ok()).flatten();
    id.filter(|id| *id != 0)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span<'a> {
    pub context: SpanContext,
    /// The span that it is part of, in the same trace; `None` for a trace's first span.
    pub parent: Option<SpanContext>,
    pub links: Vec<Link>,
    pub name: Cow<'a, str>,
    pub kind: SpanKind,
    pub start: Timestamp,
    pub end: Timestamp,
    /// By their names in the semantic conventions, or `redeliver.…`. No payload, no text of a target.
    pub attributes: Vec<(&'static str, AttributeValue<'a>)>,
    pub events: Vec<SpanEvent>,
    /// `error.type`, if it failed.
    pub error: Option<Cow<'a, str>>,
}

impl Span<'_> {
    /// The span with texts of its own.
    #[must_use]
    pub fn into_owned(self) -> Span<'static> {
        let Self { context, parent, links, name, kind, start, end, attributes, events, error } = self;
        let value = |value| match value {
            AttributeValue::Text(text) => AttributeValue::Text(Cow::Owned(text.into_owned())),
            AttributeValue::Number(number) => AttributeValue::Number(number),
        };
        Span {
            context,
            parent,
            links,
            name: Cow::Owned(name.into_owned()),
            kind,
            start,
            end,
            attributes: attributes.into_iter().map(|(name, of)| (name, value(of))).collect(),
            events,
            error: error.map(|error| Cow::Owned(error.into_owned())),
        }
    }
}

/// Another span that a span follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub to: SpanContext,
    /// The attribute `redeliver.link`: `producer`, `last_attempt` or `receive`.
    pub role: &'static str,
}

/// A moment within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    pub name: &'static str,
    pub at: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue<'static>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of our own.
    Internal,
    /// A call whose answer we wait for.
    Client,
    /// A message that is processed.
    Consumer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl From<String> for AttributeValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u32> for AttributeValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// The span of a handler's calls, as far as it is the same for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSpan<'a> {
    pub name: Cow<'a, str>,
    pub kind: SpanKind,
    pub attributes: Vec<(&'static str, AttributeValue<'a>)>,
}

/// For a handler in this process.
impl Default for CallSpan<'_> {
    fn default() -> Self {
        Self { name: "handle".into(), kind: SpanKind::Internal, attributes: Vec::new() }
    }
}
