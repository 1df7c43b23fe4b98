//! Parses a message's trace context, passes it to the target, and records the spans of the message's attempts.

pub mod messaging;
mod span;
mod tracer;

use crate::message::plain::cloud_event_strings;
use crate::message::{Attribute, Attributes};
pub use crate::span_context::SpanContext;
use crate::span_context::parse_id;
pub use span::{CallSpan, Span, SpanEvent, SpanKind, SpanValue, TraceLink};
pub use tracer::{AttemptSpan, EndedSpans, SPANS_MAX, Tracer};

/// Names of the two parts of a trace context in headers, message attributes and CloudEvents ("Trace Context", W3C;
/// "Distributed Tracing Extension", CloudEvents).
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";
/// X-Ray's header ("Tracing header", AWS X-Ray Developer Guide).
pub const XRAY_TRACE_ID: &str = "x-amzn-trace-id";
/// Size limit of a propagated `tracestate` ("tracestate Limits", Trace Context, W3C); a longer one is dropped.
const STATE_CHARACTERS_MAX: usize = 512;

/// A trace context to continue: the producer's, or that of redeliver's own span for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The span itself.
    pub span: SpanContext,
    /// The `tracestate`; empty if absent.
    state: String,
    /// `Lineage` of the X-Ray header, which Lambda uses to detect endless loops.
    lineage: Option<String>,
    /// True for an X-Ray header without `Sampled=1`: X-Ray records nothing, as is usual for functions with tracing
    /// disabled, and OpenTelemetry's sampling decision is still open.
    is_undecided: bool,
}

fn context_from_attributes(attributes: &Attributes) -> Option<TraceContext> {
    let text = |name| attributes.get(name).and_then(Attribute::text);
    TraceContext::from_headers(text(TRACEPARENT)?, text(TRACESTATE))
}

fn context_from_cloud_event(body: &str) -> Option<TraceContext> {
    // Most bodies contain no trace context, so they need not be parsed.
    if !body.contains(TRACEPARENT) {
        return None;
    }
    let [parent, state] = cloud_event_strings(body, [TRACEPARENT, TRACESTATE])?;
    TraceContext::from_headers(&parent?, state.as_deref())
}

impl TraceContext {
    /// Parses a message's context from its producer's attributes, its body if that is a CloudEvent, or its X-Ray
    /// header.
    #[must_use]
    pub fn from_parts(attributes: &Attributes, body: &str, xray: Option<&str>) -> Option<Self> {
        let context = context_from_attributes(attributes)
            .or_else(|| context_from_cloud_event(body))
            .or_else(|| Self::from_xray_header(xray?))?;
        Some(Self { lineage: xray.and_then(xray_lineage), ..context })
    }

    /// Parses the W3C headers. A `tracestate` is propagated unchanged if it is a valid header.
    fn from_headers(parent: &str, state: Option<&str>) -> Option<Self> {
        let span = SpanContext::from_traceparent(parent)?;
        Some(Self {
            span,
            state: state.filter(|state| is_propagated(state)).unwrap_or_default().to_owned(),
            lineage: None,
            is_undecided: false,
        })
    }

    /// Creates a context from a span alone, without a producer's context.
    fn from_span(span: SpanContext) -> Self {
        Self { span, state: String::new(), lineage: None, is_undecided: false }
    }

    /// Replaces the span with one that continues this trace or starts a new trace.
    #[must_use]
    pub fn with_span(&self, span: SpanContext) -> Self {
        // The vendors' state is valid only within its own trace.
        let state = if span.trace_id == self.span.trace_id { self.state.clone() } else { String::new() };
        Self { span, state, lineage: self.lineage.clone(), is_undecided: false }
    }

    /// Parses `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1` ("Tracing header", AWS X-Ray
    /// Developer Guide). Returns `None` if it has no parent.
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

    /// Returns the `traceparent` header.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.span.traceparent()
    }

    /// Returns the `tracestate` header, if present.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        Some(self.state.as_str()).filter(|state| !state.is_empty())
    }

    /// Returns the `X-Amzn-Trace-Id` header.
    #[must_use]
    pub fn xray_header(&self) -> String {
        let SpanContext { span_id, is_sampled, .. } = self.span;
        format!("Root={};Parent={span_id:016x};Sampled={}", self.span.xray_trace_id(), u8::from(is_sampled))
    }

    /// Returns the `X-Amzn-Trace-Id` header for Lambda. Its `Lineage`, which Lambda uses to stop endless loops, comes
    /// from `current`, this invocation's header, or else from the message.
    #[must_use]
    pub fn xray_header_for_lambda(&self, current: Option<&str>) -> String {
        match current.and_then(xray_lineage).or_else(|| self.lineage.clone()) {
            Some(lineage) => format!("{};Lineage={lineage}", self.xray_header()),
            None => self.xray_header(),
        }
    }
}

/// Returns a field of an X-Ray header.
fn xray_field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = header.split(';').filter_map(|field| field.trim().split_once('='));
    fields.find_map(|(field, value)| (field == name).then_some(value))
}

/// Returns the `Lineage` of an X-Ray header, if Lambda could have written all its characters.
fn xray_lineage(header: &str) -> Option<String> {
    let is_expected = |byte: u8| byte.is_ascii_alphanumeric() || b":,|".contains(&byte);
    xray_field(header, "Lineage")
        .filter(|text| !text.is_empty() && text.bytes().all(is_expected))
        .map(str::to_owned)
}

/// True for a `tracestate` that is short enough and that every HTTP client accepts. The length is checked first, since
/// it may be up to 1 MiB.
fn is_propagated(state: &str) -> bool {
    state.len() <= STATE_CHARACTERS_MAX && state.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

#[cfg(test)]
mod tests;
