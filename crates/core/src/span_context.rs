//! Span identity: the `traceparent` header ("Trace Context", W3C).

use std::borrow::Cow;

use serde::{Serialize, Serializer};

/// The identity of a span, in compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanContext {
    /// Never 0.
    pub trace_id: u128,
    /// Never 0.
    pub span_id: u64,
    /// False if the trace is not recorded.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Parses a `traceparent` header; `None` if it is invalid ("Trace Context", W3C).
    #[must_use]
    pub fn from_traceparent(text: &str) -> Option<Self> {
        let (version, rest) = text.split_once('-')?;
        let (trace_id, rest) = rest.split_once('-')?;
        let (span_id, rest) = rest.split_once('-')?;
        let (flags, more) = rest.split_once('-').map_or((rest, None), |(flags, more)| (flags, Some(more)));
        let is_known = version != "00" || more.is_none();
        if !(is_hex(version, 2) && version != "ff" && is_hex(flags, 2) && is_known) {
            return None;
        }
        Some(Self {
            trace_id: parse_id(trace_id, 32)?,
            span_id: u64::try_from(parse_id(span_id, 16)?).ok()?,
            is_sampled: u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1),
        })
    }

    /// Parses a `traceparent` header from a JSON string. Anything else counts as absent, since a broken link must not
    /// fail the message.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        Self::from_traceparent(&serde_json::from_str::<Cow<'_, str>>(text).ok()?)
    }

    /// Returns the `traceparent` header.
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

    /// Returns the trace id as 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// Returns the trace id in X-Ray's form: `1-5759e988-bd862e3fe1be46a994272793`.
    #[must_use]
    pub fn xray_trace_id(&self) -> String {
        format!("1-{:08x}-{:024x}", self.trace_id >> 96, self.trace_id & ((1 << 96) - 1))
    }
}

/// Serializes as a `traceparent` header.
impl Serialize for SpanContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.traceparent())
    }
}

/// Appends hexadecimal digits. The standard library's formatting accounted for a fifth of the cost of a failed call's
/// spans.
fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// Parses an id with this many lower-case hexadecimal digits, not all of them 0.
pub(crate) fn parse_id(text: &str, digits: usize) -> Option<u128> {
    let id = is_hex(text, digits).then(|| u128::from_str_radix(text, 16).ok()).flatten();
    id.filter(|id| *id != 0)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
