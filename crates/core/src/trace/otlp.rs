//! Spans as OTLP has them ("opentelemetry/proto/trace/v1/trace.proto"). Written without the types of
//! `opentelemetry-proto`, which the tests read it with: with those, spans took 20 % of a batch's instructions.

mod protobuf;

use super::messaging::SCHEMA_URL;
use super::{AttributeValue, Link, Span, SpanContext, SpanEvent, SpanKind};
use crate::message::Timestamp;
use protobuf::{Begun, Encoder, content_bytes, number_bytes};

/// A sampled span's flags.
const SAMPLED: u32 = 1;
/// The `Status` of an error: field 3 is its code, 2.
const STATUS_ERROR: [u8; 2] = [3 << 3, 2];
/// The attribute of a link.
const ROLE: &str = "redeliver.link";

/// The instrumentation scope of all that redeliver exports.
pub const SCOPE_NAME: &str = "redeliver";
pub const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// An `ExportTraceServiceRequest`, to which spans are added as they end.
#[derive(Debug)]
pub struct Request {
    encoder: Encoder,
    resource_spans: Begun,
    scope_spans: Begun,
}

impl Request {
    /// A request of about this size, of a resource with these attributes.
    #[must_use]
    pub fn begin(resource: &[(String, String)], bytes: usize) -> Self {
        let mut encoder = Encoder::with_capacity(bytes);
        let resource_spans = encoder.begin(1);
        let of = encoder.begin(1);
        resource.iter().for_each(|(name, value)| text_attribute(&mut encoder, 1, name, value));
        encoder.end(of);
        let scope_spans = encoder.begin(2);
        let scope = encoder.begin(1);
        encoder.text(1, SCOPE_NAME);
        encoder.text(2, SCOPE_VERSION);
        encoder.end(scope);
        Self { encoder, resource_spans, scope_spans }
    }

    /// Adds a span.
    pub fn push(&mut self, span: &Span<'_>) {
        let begun = self.encoder.begin(2);
        encode_span(&mut self.encoder, span);
        self.encoder.end(begun);
    }

    /// The request with its spans.
    #[must_use]
    pub fn end(self) -> Vec<u8> {
        let Self { mut encoder, resource_spans, scope_spans } = self;
        encoder.text(3, SCHEMA_URL);
        encoder.end(scope_spans);
        encoder.text(3, SCHEMA_URL);
        encoder.end(resource_spans);
        encoder.into_bytes()
    }
}

/// A time as OTLP has it.
#[must_use]
pub fn nanoseconds(moment: Timestamp) -> u64 {
    moment.timestamp_nanos_opt().and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).unwrap_or(0)
}

fn encode_span(encoded: &mut Encoder, span: &Span<'_>) {
    let Span { context, parent, links, name, kind, start, end, attributes: own, events, error } = span;
    ids(encoded, *context);
    if let Some(parent) = parent {
        encoded.bytes(4, &parent.span_id.to_be_bytes());
    }
    encoded.text(5, name);
    encoded.number(
        6,
        match kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
            SpanKind::Consumer => 5,
        },
    );
    encoded.fixed64(7, nanoseconds(*start));
    encoded.fixed64(8, nanoseconds((*end).max(*start)));
    attributes(encoded, 9, own);
    if let Some(error) = error {
        text_attribute(encoded, 9, "error.type", error);
    }
    for SpanEvent { name, at, attributes: own } in events {
        let event = encoded.begin(11);
        encoded.fixed64(1, nanoseconds(*at));
        encoded.text(2, name);
        attributes(encoded, 3, own);
        encoded.end(event);
    }
    for Link { to, role } in links {
        let link = encoded.begin(13);
        ids(encoded, *to);
        text_attribute(encoded, 4, ROLE, role);
        encoded.fixed32(6, u32::from(to.is_sampled));
        encoded.end(link);
    }
    if error.is_some() {
        encoded.bytes(15, &STATUS_ERROR);
    }
    encoded.fixed32(16, SAMPLED);
}

fn ids(encoded: &mut Encoder, SpanContext { trace_id, span_id, .. }: SpanContext) {
    encoded.bytes(1, &trace_id.to_be_bytes());
    encoded.bytes(2, &span_id.to_be_bytes());
}

fn attributes(encoded: &mut Encoder, field: u64, attributes: &[(&'static str, AttributeValue<'_>)]) {
    for (name, value) in attributes {
        match value {
            AttributeValue::Text(text) => text_attribute(encoded, field, name, text),
            AttributeValue::Number(number) => {
                let number = number.cast_unsigned();
                key(encoded, field, name, number_bytes(number));
                encoded.sized(2, number_bytes(number));
                encoded.number(3, number);
            }
        }
    }
}

fn text_attribute(encoded: &mut Encoder, field: u64, name: &str, text: &str) {
    let value_bytes = content_bytes(text.len() as u64);
    key(encoded, field, name, value_bytes);
    encoded.message_with_text(2, value_bytes, 1, text);
}

/// A `KeyValue` up to its `AnyValue`, which has this size.
#[inline]
fn key(encoded: &mut Encoder, field: u64, name: &str, value_bytes: u64) {
    let bytes = content_bytes(name.len() as u64) + content_bytes(value_bytes);
    encoded.message_with_text(field, bytes, 1, name);
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{
        ResourceSpans, ScopeSpans, Span as Decoded, Status, span, status,
    };
    use prost::Message as _;

    use super::*;
    use crate::message::metadata::parse_rfc3339;

    const NANOSECONDS: u64 = 1_785_000_000_000_001_000;

    fn request(resource: &[(String, String)], span: &Span<'_>) -> Vec<u8> {
        let mut request = Request::begin(resource, 0);
        request.push(span);
        request.end()
    }

    fn pair(key: &str, value: Value) -> KeyValue {
        let value = Some(AnyValue { value: Some(value) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    fn text(key: &str, value: &str) -> KeyValue {
        pair(key, Value::StringValue(value.to_owned()))
    }

    /// Lengths of one, two and three bytes.
    #[test]
    fn opentelemetrys_own_types_read_every_member() {
        let at = parse_rfc3339("2026-07-25T17:20:00.000001Z").unwrap();
        assert_eq!(nanoseconds(at), NANOSECONDS);
        let context = |span_id| SpanContext { trace_id: 1 << 120 | 7, span_id, is_sampled: true };
        for length in [0, 100, 127, 128, 300, 16_383, 16_384, 70_000] {
            let long = "é".repeat(length / 2) + if length % 2 == 1 { "x" } else { "" };
            let encoded = request(
                &[("service.name".to_owned(), long.clone())],
                &Span {
                    context: context(2),
                    parent: Some(context(1)),
                    links: vec![Link { to: context(3), role: "producer" }],
                    name: "process orders".into(),
                    kind: SpanKind::Consumer,
                    start: at,
                    end: at - chrono::TimeDelta::seconds(1),
                    attributes: vec![
                        ("text", long.clone().into()),
                        ("number", AttributeValue::Number(-5)),
                        ("large", 4_000_000_000.into()),
                    ],
                    events: vec![SpanEvent { name: "held", at, attributes: vec![("n", 300.into())] }],
                    error: Some("HttpStatus.503".into()),
                },
            );
            let id = |span_id: u64| {
                (vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], span_id.to_be_bytes().to_vec())
            };
            let ((trace_id, span_id), parent, linked) = (id(2), id(1), id(3));
            let decoded = Decoded {
                trace_id,
                span_id,
                parent_span_id: parent.1,
                name: "process orders".to_owned(),
                kind: span::SpanKind::Consumer.into(),
                start_time_unix_nano: NANOSECONDS,
                end_time_unix_nano: NANOSECONDS,
                attributes: vec![
                    text("text", &long),
                    pair("number", Value::IntValue(-5)),
                    pair("large", Value::IntValue(4_000_000_000)),
                    text("error.type", "HttpStatus.503"),
                ],
                events: vec![span::Event {
                    time_unix_nano: NANOSECONDS,
                    name: "held".to_owned(),
                    attributes: vec![pair("n", Value::IntValue(300))],
                    ..span::Event::default()
                }],
                links: vec![span::Link {
                    trace_id: linked.0,
                    span_id: linked.1,
                    attributes: vec![text("redeliver.link", "producer")],
                    flags: 1,
                    ..span::Link::default()
                }],
                status: Some(Status { code: status::StatusCode::Error.into(), ..Status::default() }),
                flags: 1,
                ..Decoded::default()
            };
            let scope = InstrumentationScope {
                name: "redeliver".to_owned(),
                version: "0.1.0".to_owned(),
                ..InstrumentationScope::default()
            };
            let schema_url = "https://opentelemetry.io/schemas/1.37.0".to_owned();
            let resource = Resource { attributes: vec![text("service.name", &long)], ..Resource::default() };
            let expected = ExportTraceServiceRequest {
                resource_spans: vec![ResourceSpans {
                    resource: Some(resource),
                    scope_spans: vec![ScopeSpans {
                        scope: Some(scope),
                        spans: vec![decoded],
                        schema_url: schema_url.clone(),
                    }],
                    schema_url,
                }],
            };
            assert_eq!(ExportTraceServiceRequest::decode(&encoded[..]), Ok(expected), "{length}");
        }
    }

    #[test]
    fn a_span_without_an_error_has_its_kind_and_does_not_end_before_its_start() {
        let at = parse_rfc3339("2026-07-25T17:20:00.000001Z").unwrap();
        let context = |is_sampled| SpanContext { trace_id: 1, span_id: 2, is_sampled };
        for (kind, expected) in [
            (SpanKind::Internal, span::SpanKind::Internal),
            (SpanKind::Client, span::SpanKind::Client),
            (SpanKind::Consumer, span::SpanKind::Consumer),
        ] {
            let encoded = request(
                &[],
                &Span {
                    context: context(true),
                    parent: None,
                    links: vec![Link { to: context(false), role: "producer" }],
                    name: "x".into(),
                    kind,
                    start: at,
                    end: at - chrono::TimeDelta::seconds(1),
                    attributes: Vec::new(),
                    events: Vec::new(),
                    error: None,
                },
            );
            let decoded = ExportTraceServiceRequest::decode(&encoded[..]).unwrap();
            let decoded = &decoded.resource_spans[0].scope_spans[0].spans[0];
            assert_eq!((decoded.kind(), &decoded.status, decoded.links[0].flags), (expected, &None, 0));
            assert_eq!(
                (decoded.start_time_unix_nano, decoded.end_time_unix_nano),
                (NANOSECONDS, NANOSECONDS)
            );
        }
    }
}
