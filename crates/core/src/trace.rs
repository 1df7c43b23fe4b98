//! Trace contexts: a message's own, how the target gets it, and the spans of its attempts.

pub mod messaging;
mod span;
mod tracer;

use crate::message::plain::cloud_event_strings;
use crate::message::{Attribute, Attributes};
pub use crate::span_context::SpanContext;
use crate::span_context::parse_id;
pub use span::{CallSpan, Span, SpanEvent, SpanKind, SpanValue, TraceLink};
pub use tracer::{AttemptSpan, EndedSpans, SPANS_MAX, Tracer};

/// Names of the two parts in headers, message attributes and CloudEvents ("Trace Context", W3C; "Distributed Tracing
/// Extension", CloudEvents).
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";
/// X-Ray's header ("Tracing header", AWS X-Ray Developer Guide).
pub const XRAY_TRACE_ID: &str = "x-amzn-trace-id";
/// A `tracestate` of this size is passed on ("tracestate Limits", Trace Context, W3C); a longer one is dropped.
const STATE_CHARACTERS_MAX: usize = 512;

/// A span to continue: the producer's, or that of redeliver's call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The span itself.
    pub span: SpanContext,
    /// Empty if there is none.
    state: String,
    /// `Lineage` of the X-Ray header, by which Lambda finds endless loops.
    lineage: Option<String>,
    /// True for an X-Ray header without `Sampled=1`: X-Ray records nothing, as in each function whose tracing is off,
    /// and OpenTelemetry's sampling is still undecided.
    is_undecided: bool,
}

fn context_from_attributes(attributes: &Attributes) -> Option<TraceContext> {
    let text = |name| attributes.get(name).and_then(Attribute::text);
    TraceContext::from_headers(text(TRACEPARENT)?, text(TRACESTATE))
}

fn context_from_cloud_event(body: &str) -> Option<TraceContext> {
    // Most bodies have none, and need not be parsed.
    if !body.contains(TRACEPARENT) {
        return None;
    }
    let [parent, state] = cloud_event_strings(body, [TRACEPARENT, TRACESTATE])?;
    TraceContext::from_headers(&parent?, state.as_deref())
}

impl TraceContext {
    /// The context of a message with these attributes of its producer, this body, which may be a CloudEvent, and this
    /// X-Ray header.
    #[must_use]
    pub fn from_parts(attributes: &Attributes, body: &str, xray: Option<&str>) -> Option<Self> {
        let context = context_from_attributes(attributes)
            .or_else(|| context_from_cloud_event(body))
            .or_else(|| Self::from_xray_header(xray?))?;
        Some(Self { lineage: xray.and_then(xray_lineage), ..context })
    }

    /// Parses W3C's headers. A `tracestate` is passed on as it is, if it can be a header.
    fn from_headers(parent: &str, state: Option<&str>) -> Option<Self> {
        let span = SpanContext::from_traceparent(parent)?;
        Some(Self {
            span,
            state: state.filter(|state| is_passed_on(state)).unwrap_or_default().to_owned(),
            lineage: None,
            is_undecided: false,
        })
    }

    /// The context of a span without a producer's.
    fn from_span(span: SpanContext) -> Self {
        Self { span, state: String::new(), lineage: None, is_undecided: false }
    }

    /// The context of another span, which continues this one's trace or begins its own.
    #[must_use]
    pub fn with_span(&self, span: SpanContext) -> Self {
        // Vendors' notes belong to one trace.
        let state = if span.trace_id == self.span.trace_id { self.state.clone() } else { String::new() };
        Self { span, state, lineage: self.lineage.clone(), is_undecided: false }
    }

    /// Parses `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1` ("Tracing header", AWS X-Ray
    /// Developer Guide). Without a parent there is no span.
    fn from_xray_header(header: &str) -> Option<Self> {
        let (seconds, random) = xray_field(header, "Root")?.strip_prefix("1-")?.split_once('-')?;
        let trace_id = format!("{seconds}{random}");
        let span = SpanContext {
            trace_id: parse_id(&trace_id, 32).filter(|_| seconds.len() == 8)?,
            span_id: u64::try_from(parse_id(xray_field(header, "Parent")?, 16)?).ok()?,
            is_sampled: xray_field(header, "Sampled") == Some("1"),
        };
        Some(Self { is_undecided: !span.is_sampled, ..Self::from_span(span) })
    }

    /// The header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.span.traceparent()
    }

    /// The header `tracestate`, if there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        Some(self.state.as_str()).filter(|state| !state.is_empty())
    }

    /// The header `X-Amzn-Trace-Id`.
    #[must_use]
    pub fn xray_header(&self) -> String {
        let SpanContext { span_id, is_sampled, .. } = self.span;
        format!("Root={};Parent={span_id:016x};Sampled={}", self.span.xray_trace_id(), u8::from(is_sampled))
    }

    /// The header `X-Amzn-Trace-Id` for Lambda, which counts the functions on the way in `Lineage` and so ends endless
    /// loops: that of `current`, the header of this invocation, or else the message's.
    #[must_use]
    pub fn xray_header_for_lambda(&self, current: Option<&str>) -> String {
        match current.and_then(xray_lineage).or_else(|| self.lineage.clone()) {
            Some(lineage) => format!("{};Lineage={lineage}", self.xray_header()),
            None => self.xray_header(),
        }
    }
}

/// A field of an X-Ray header.
fn xray_field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = header.split(';').filter_map(|field| field.trim().split_once('='));
    fields.find_map(|(field, value)| (field == name).then_some(value))
}

/// The `Lineage` of an X-Ray header, if it has only what Lambda writes there.
fn xray_lineage(header: &str) -> Option<String> {
    let is_expected = |byte: u8| byte.is_ascii_alphanumeric() || b":,|".contains(&byte);
    xray_field(header, "Lineage")
        .filter(|text| !text.is_empty() && text.bytes().all(is_expected))
        .map(str::to_owned)
}

/// True for a `tracestate` that is short enough, and that no HTTP client refuses. The length counts first: a message may
/// bring 1 MiB.
fn is_passed_on(state: &str) -> bool {
    state.len() <= STATE_CHARACTERS_MAX && state.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

#[cfg(test)]
mod tests;
